"""The body of an answer, and the length that its headers state."""

import io

import pytest

from servable_client import BadAnswerError, DeadlineExceededError
from servable_client.exchange import Deadline, read_body


def test_an_answer_without_a_length_or_after_the_deadline_is_refused() -> None:
    for length in ["", "1x", "-1", "\u0661", "9" * 5000]:
        with pytest.raises(BadAnswerError, match="is not chunked"):
            read_body(io.BytesIO(b"x"), {"content-length": length}, Deadline(60))

    stream = io.BytesIO(bytes(3 << 20))
    with pytest.raises(DeadlineExceededError, match="was incomplete"):
        read_body(stream, {"content-length": str(3 << 20)}, Deadline(0))
    assert stream.closed


def test_an_answer_of_a_stated_length_or_in_chunks_is_read_whole() -> None:
    cases: list[dict[str, str]] = [{"content-length": "1"}, {"transfer-encoding": "Chunked"}]
    for headers in cases:
        assert read_body(io.BytesIO(b"x"), headers, Deadline(60)) == b"x"
    for length in ["1", str(3 << 20), "9" * 5000]:
        body = bytes(3 << 20)
        assert (
            read_body(io.BytesIO(body), {"content-length": length}, Deadline(60), framed=False)
            == body
        )
