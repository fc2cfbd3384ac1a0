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
from servable_local.container.nginx.routes import passed_on, unmodified
from tests.servable_local.container.more_observed import all_requests, message

TWO = (
    b"POST /invocations?a=1 HTTP/1.1\r\nHost: localhost:8080\r\nX-One: 1\r\nContent-Length: 5\r\n\r\nhello"
    b"GET /ping HTTP/1.1\r\nHost: localhost:8080\r\nConnection: close\r\n\r\n"
)


CHUNKS = (
    b"POST /invocations HTTP/1.1\r\nHost: localhost:8080\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n"
)


@given(st.lists(st.integers(0, 200), max_size=8))
def test_chunks_are_the_same_however_their_bytes_are_cut(cuts: list[int]) -> None:
    (first, _), (second, _) = _read(CHUNKS * 2, cuts)
    assert (first.body, second.body) == (b"abc0123456789", b"abc0123456789")


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


def test_the_beginning_of_another_protocol_is_refused_at_once() -> None:
    with pytest.raises(BadRequestError):
        RequestReader(8080).feed(b"\x16\x03\x01\x02\x00\x01\x00")


# Observed too, and refused elsewhere: paths in routes.py, and requests as web pages send them.
ELSEWHERE = {"GET /%zz", "POST /%zz", "GET /%00", "POST /%00", "POST /../x", "GET /..#"}


def test_what_nginx_refuses_by_itself_is_refused_with_its_status() -> None:
    found, expected = {}, {}
    for row in all_requests():
        answer, case = row["answer"], f"{row['setup']} {row['case']}"
        closed = answer["headers"].get("connection") == "close" and answer["type"] == "text/html"
        if closed and row["case"] not in ELSEWHERE:
            expected[case] = answer["status"]
        reader = RequestReader(8080)
        try:
            reader.feed(message(row, "localhost:8080", "/m"))
        except BadRequestError as refused:
            if not reader.requests:  # else what follows the request is none
                found[case] = refused.status
    assert found.pop("plain no version") == 400  # closed by NGINX; and it names no Host
    assert found == expected


def _with_line(length: int) -> bytes:
    line = b"X-Big: ".ljust(length - len(b"\r\n"), b"a")
    return b"GET /ping HTTP/1.1\r\nHost: localhost:8080\r\n" + line + b"\r\n\r\n"


def test_a_header_of_8_kb_with_its_end_fits() -> None:
    assert len(_read(_with_line(8192), [])) == 1


def _with_headers(count: int) -> bytes:
    lines = [b"Host: localhost:8080", *[b"X: y"] * (count - 1)]
    return b"GET /ping HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n"


def test_a_thousand_headers_are_taken() -> None:
    assert len(_read(_with_headers(1000), [])) == 1


def test_more_than_a_thousand_headers_are_refused() -> None:
    with pytest.raises(BadRequestError, match="more than 1000 headers"):
        _read(_with_headers(1001), [])


def test_a_method_without_an_end_is_a_line_that_is_too_long() -> None:
    with pytest.raises(BadRequestError) as refused:
        RequestReader(8080).feed(b"A" * 9000 + b"\r\n\r\n")
    assert refused.value.status == 414


def test_a_longer_header_is_refused() -> None:
    with pytest.raises(BadRequestError, match="too long"):
        _read(_with_line(8193), [])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("If-None-Match: *", 304),
        ("If-None-Match: *\r\nIf-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT", 200),
        ('If-None-Match: "a"', 200),
        ("If-Match: *", 200),
        ('If-Match: "a"', 412),
        ("If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT", 412),
    ],
)
def test_an_answer_of_nginxs_own_has_no_date_and_no_etag(headers: str, status: int) -> None:
    data = f"GET /ping HTTP/1.1\r\nHost: localhost:8080\r\n{headers}\r\n\r\n".encode()
    ((request, _),) = _read(data, [])
    assert unmodified(request, HttpAnswer(200)).status == status


def test_gunicorn_gets_the_query_and_the_last_content_type() -> None:
    data = b"POST /models?a=1 HTTP/1.1\r\nHost: localhost:8080\r\nContent-Type: a/b\r\nTE: trailers\r\n"
    ((request, _),) = _read(data + b"Content-Type: c/d\r\nX-A: 1\r\n\r\n", [])
    assert passed_on(request) == (
        b"POST /models?a=1 HTTP/1.0\r\nHost: gunicorn_upstream\r\nConnection: close\r\n"
        b"Content-Type: c/d\r\nX-A: 1\r\n\r\n"
    )


def test_a_header_that_is_not_there_is_none() -> None:
    assert _read(TWO, [])[0][0].headers.get("Accept") is None


def test_an_answer_has_the_length_of_its_body() -> None:
    assert b"Content-Length: 3\r\n" in encoded(HttpAnswer(200, b"abc"), keep_alive=True)


def test_the_answer_to_head_has_the_length_and_not_the_body() -> None:
    found = encoded(HttpAnswer(200, b"abc"), keep_alive=True, head=True)
    assert (b"Content-Length: 3\r\n" in found, found.endswith(b"\r\n\r\n")) == (True, True)


def test_space_after_a_headers_value_is_none_of_it() -> None:
    data = b"GET /ping HTTP/1.1\r\nHost: localhost:8080\r\nAccept:  text/csv \r\n\r\n"
    ((request, _),) = _read(data, [])
    assert request.headers.get("Accept") == "text/csv"
