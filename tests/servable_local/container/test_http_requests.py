from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_local.container.http_messages import (
    BadRequestError,
    HttpAnswer,
    HttpRequest,
    RequestReader,
    encoded,
)

TWO = (
    b"POST /invocations?a=1 HTTP/1.1\r\nHost: localhost:8080\r\nX-One: 1\r\nContent-Length: 5\r\n\r\nhello"
    b"GET /ping HTTP/1.1\r\nHost: localhost:8080\r\nConnection: close\r\n\r\n"
)


def _read(data: bytes, cuts: list[int]) -> list[tuple[HttpRequest, bool]]:
    reader = RequestReader(8080)
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    for start, end in pairwise(places):
        reader.feed(data[start:end])
    return [(one, keep) for one, keep in reader.requests if isinstance(one, HttpRequest)]


@given(st.lists(st.integers(0, 200), max_size=8))
def test_requests_are_the_same_however_their_bytes_are_cut(cuts: list[int]) -> None:
    (first, keep_first), (second, keep_second) = _read(TWO, cuts)
    assert (first.method, first.path, first.headers.get("x-ONE"), first.body, keep_first) == (
        "POST",
        "/invocations",
        "1",
        b"hello",
        True,
    )
    assert (second.method, second.path, second.body, keep_second) == ("GET", "/ping", b"", False)


def test_what_is_no_request_is_said() -> None:
    with pytest.raises(BadRequestError):
        RequestReader(8080).feed(b"hello\r\n\r\n")


def test_a_header_that_is_not_there_is_none() -> None:
    assert _read(TWO, [])[0][0].headers.get("Accept") is None


def test_an_answer_has_the_length_of_its_body() -> None:
    assert b"Content-Length: 3\r\n" in encoded(HttpAnswer(200, b"abc"), keep_alive=True)


def test_the_answer_to_head_has_the_length_and_not_the_body() -> None:
    found = encoded(HttpAnswer(200, b"abc"), keep_alive=True, head=True)
    assert (b"Content-Length: 3\r\n" in found, found.endswith(b"\r\n\r\n")) == (True, True)
