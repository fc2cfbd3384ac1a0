"""The body of an answer, and the length that its headers state."""

import io

import pytest

from servable_client import BadAnswerError, DeadlineExceededError
from servable_client.exchange import Deadline, read_body


@pytest.mark.parametrize("length", ["", "1x", "-1", "\u0661", "9" * 5000], ids=repr)
def test_an_answer_whose_length_is_no_number_of_bytes_is_refused(length: str) -> None:
    with pytest.raises(BadAnswerError, match="is not chunked"):
        read_body(io.BytesIO(b"x"), {"content-length": length}, Deadline(60))


@pytest.mark.parametrize("headers", [{"content-length": "1"}, {"transfer-encoding": "Chunked"}])
def test_an_answer_of_a_stated_length_or_in_chunks_is_taken(headers: dict[str, str]) -> None:
    assert read_body(io.BytesIO(b"x"), headers, Deadline(60)) == b"x"


@pytest.mark.parametrize("length", ["1", str(3 << 20), "9" * 5000], ids=["1", "3 MiB", "9…"])
def test_a_body_is_read_whole_whatever_length_is_stated(length: str) -> None:
    body = bytes(3 << 20)
    assert (
        read_body(io.BytesIO(body), {"content-length": length}, Deadline(60), framed=False) == body
    )


def test_a_large_body_that_is_still_coming_at_the_deadline_is_given_up() -> None:
    stream = io.BytesIO(bytes(3 << 20))
    with pytest.raises(DeadlineExceededError, match="still coming"):
        read_body(stream, {"content-length": str(3 << 20)}, Deadline(0))
    assert stream.closed
