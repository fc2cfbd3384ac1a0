from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_local.container.http_messages import (
    BadRequestError,
    HttpRequest,
    HttpResponse,
    RequestReader,
    encode_response,
)
from servable_local.container.nginx.routes import build_gunicorn_request

TWO = (
    b"POST /invocations?a=1 HTTP/1.1\r\nHost: localhost:8080\r\nX-One: 1\r\nContent-Length: 5\r\n\r\nhello"
    b"GET /ping HTTP/1.1\r\nHost: localhost:8080\r\nConnection: close\r\n\r\n"
)


CHUNKS = (
    b"POST /invocations HTTP/1.1\r\nHost: localhost:8080\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n"
)


HEAD = b"POST /invocations HTTP/1.1\r\nHost: localhost:8080\r\n"
# As Java's HttpClient sends every request until it knows that a server has no HTTP/2.
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAE\r\n"


def _read(data: bytes, cuts: list[int]) -> list[tuple[HttpRequest, bool]]:
    reader = RequestReader(8080)
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    for start, end in pairwise(places):
        reader.feed(data[start:end])
    return [(one, keep) for one, keep in reader.requests if isinstance(one, HttpRequest)]


@given(st.lists(st.integers(0, 400), max_size=8))
def test_requests_are_the_same_however_their_bytes_are_cut(cuts: list[int]) -> None:
    (first, keep_first), (second, keep_second) = _read(TWO, cuts)
    assert (first.method, first.path, first.body) == ("POST", "/invocations", b"hello")
    assert first.headers.find_value("x-ONE") == "1"
    assert (second.method, second.path, second.body) == ("GET", "/ping", b"")
    assert (keep_first, keep_second) == (True, False)
    (first, _), (second, _) = _read(CHUNKS * 2, cuts)
    assert (first.body, second.body) == (b"abc0123456789", b"abc0123456789")
    # An upgrade is ignored, and the body read.
    for body in (b"Content-Length: 5\r\n\r\nhello", CHUNKS.partition(b"8080\r\n")[2]):
        (first, keep), (second, _) = _read(HEAD + H2C + body + TWO[TWO.index(b"GET") :], cuts)
        assert (first.method, first.path, keep) == ("POST", "/invocations", True)
        assert first.body in (b"hello", b"abc0123456789")
        assert first.headers.find_value("Upgrade") is None
        assert first.headers.find_value("HTTP2-Settings") == "AAEAAE"
        assert (second.method, second.path) == ("GET", "/ping")


def test_malformed_bytes_and_what_nginx_never_passes_on_are_rejected() -> None:
    for data in [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /ping HTTP/2.0\r\nHost: localhost:8080\r\n\r\n",
        b"GET /ping HTTP/1.1\r\n\r\n",
        b"GET /ping HTTP/1.1\r\nHost: localhost:8080\r\nHost: localhost:8080\r\n\r\n",
        b"GET /two words HTTP/1.1\r\nHost: localhost:8080\r\n\r\n",
        HEAD + b"no colon\r\n\r\n",
        HEAD + b"X: a\0b\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ]:
        with pytest.raises(BadRequestError) as rejected:
            RequestReader(8080).feed(data)
        assert (rejected.value.status, rejected.value.phrase) == (400, "Bad Request")
    for method in (b"TRACE /", b"CONNECT localhost:8080"):
        with pytest.raises(BadRequestError) as rejected:
            RequestReader(8080).feed(method + b" HTTP/1.1\r\nHost: localhost:8080\r\n\r\n")
        assert rejected.value.status == 405


@pytest.mark.parametrize("piece", [1, 500, 100_000])
def test_a_header_has_at_most_8_kb_and_a_head_32_kb(piece: int) -> None:
    def read(data: bytes) -> int:
        reader = RequestReader(8080)
        for at in range(0, len(data), piece):
            reader.feed(data[at : at + piece])
        return len(reader.requests)

    line = b"X-Big: ".ljust(8190, b"a") + b"\r\n"
    assert read(HEAD + line + b"\r\n") == 1
    with pytest.raises(BadRequestError) as rejected:
        read(HEAD + b"a" + line + b"\r\n")
    assert (rejected.value.status, rejected.value.phrase) == (
        400,
        "Request Header Or Cookie Too Large",
    )
    with pytest.raises(BadRequestError) as rejected:
        read(b"GET /?" + b"a" * 8192 + b" HTTP/1.1\r\n\r\n")
    assert rejected.value.status == 414


def test_a_head_is_counted_alone_and_one_without_an_end_isnt_kept() -> None:
    reader = RequestReader(8080)
    reader.feed(HEAD + b"X-Big: ")
    for _ in range(8):
        reader.feed(b"a" * 4096)
    with pytest.raises(BadRequestError, match="too long"):
        reader.feed(b"a" * 4096)

    reader = RequestReader(8080)
    body = b"a" * 100_000
    reader.feed(HEAD + b"Content-Length: 100000\r\n\r\n" + body + HEAD[:10])
    reader.feed(HEAD[10:] + b"\r\n")
    assert [len(one.body) for one, _ in reader.requests if isinstance(one, HttpRequest)] == [
        100_000,
        0,
    ]


def test_a_caller_who_waits_before_the_body_is_told_to_continue_once() -> None:
    reader = RequestReader(8080)
    reader.feed(HEAD + b"Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n")
    assert reader.wants_continue
    reader.wants_continue = False  # as the server that has written it
    reader.feed(b"a")
    assert not reader.wants_continue
    reader.feed(b"b")
    assert (reader.wants_continue, len(reader.requests)) == (False, 1)

    reader = RequestReader(8080)
    reader.feed(HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\nab")
    assert not reader.wants_continue


def test_headers_and_answers_are_passed_on_as_nginx_does() -> None:
    ((request, _),) = _read(HEAD + b"X_One: 1\r\nX-Two: \xe9\r\n\r\n", [])
    assert (request.headers.find_value("X_One"), request.headers.find_value("X-Two")) == (
        None,
        "\xe9",
    )

    data = b"POST /models?a=1 HTTP/1.1\r\nHost: localhost:8080\r\nContent-Type: a/b\r\nTE: trailers\r\n"
    ((request, _),) = _read(data + b"Content-Type: c/d\r\nX-A: 1\r\n\r\n", [])
    assert build_gunicorn_request(request) == (
        b"POST /models?a=1 HTTP/1.0\r\nHost: gunicorn_upstream\r\nConnection: close\r\n"
        b"Content-Type: c/d\r\nX-A: 1\r\n\r\n"
    )
    assert _read(TWO, [])[0][0].headers.find_value("Accept") is None

    data = b"GET /ping HTTP/1.1\r\nHost: localhost:8080\r\nAccept:  text/csv \r\n\r\n"
    ((request, _),) = _read(data, [])
    assert request.headers.find_value("Accept") == "text/csv"

    assert b"Content-Length: 3\r\n" in encode_response(HttpResponse(200, b"abc"), keep_alive=True)
    found = encode_response(HttpResponse(200, b"abc"), keep_alive=True, head=True)
    assert (b"Content-Length: 3\r\n" in found, found.endswith(b"\r\n\r\n")) == (True, True)
