"""HTTP as NGINX takes and passes it on: requests as bytes, paths, bodies, and what web pages may not send."""

import ipaddress
import json
from itertools import pairwise
from urllib.parse import urlsplit

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
from servable_local.container.image_code import find_image_code
from servable_local.container.nginx.routes import (
    apply_accept_header,
    build_gunicorn_request,
    convert_body,
    convert_csv_up_to_2_19,
    escape_path,
    normalize_path,
)
from servable_local.protection import explain_rejection, list_own_hosts

HOST = b"Host: localhost:8080\r\n"
GET = b"GET /ping HTTP/1.1\r\n" + HOST
HEAD = b"POST /invocations HTTP/1.1\r\n" + HOST
TWO = (
    b"POST /invocations?a=1 HTTP/1.1\r\n" + HOST + b"X-One: 1\r\nContent-Length: 5\r\n\r\nhello"
    + GET + b"Connection: close\r\n\r\n"
)  # fmt: skip
CHUNKS = (
    b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n"
)
# As Java's HttpClient sends every request until it knows that a server has no HTTP/2.
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAE\r\n"


def _feed(*parts: bytes) -> RequestReader:
    reader = RequestReader(8080)
    for part in parts:
        reader.feed(part)
    return reader


def _read(data: bytes, cuts: list[int]) -> list[tuple[HttpRequest, bool]]:
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    reader = _feed(*(data[start:end] for start, end in pairwise(places)))
    return [(one, keep) for one, keep in reader.requests if isinstance(one, HttpRequest)]


def _reject(*parts: bytes) -> tuple[int, str]:
    """Return the status and the phrase with which a request in these parts is rejected."""
    with pytest.raises(BadRequestError) as rejected:
        _feed(*parts)
    return rejected.value.status, rejected.value.phrase


@given(st.lists(st.integers(0, 400), max_size=8))
def test_requests_are_the_same_however_their_bytes_are_cut(cuts: list[int]) -> None:
    (first, keep_first), (second, keep_second) = _read(TWO, cuts)
    assert (first.method, first.path, first.body) == ("POST", "/invocations", b"hello")
    assert first.headers.find_value("x-ONE") == "1"
    assert (second.method, second.path, second.body) == ("GET", "/ping", b"")
    assert (keep_first, keep_second) == (True, False)
    (first, _), (second, _) = _read((HEAD + CHUNKS) * 2, cuts)
    assert (first.body, second.body) == (b"abc0123456789", b"abc0123456789")
    # An upgrade is ignored, and the body read.
    for body in (b"Content-Length: 5\r\n\r\nhello", CHUNKS):
        (first, keep), (second, _) = _read(HEAD + H2C + body + GET + b"\r\n", cuts)
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
        b"GET /ping HTTP/2.0\r\n" + HOST + b"\r\n",
        b"GET /ping HTTP/1.1\r\n\r\n",
        GET + HOST + b"\r\n",
        b"GET /two words HTTP/1.1\r\n" + HOST + b"\r\n",
        HEAD + b"no colon\r\n\r\n",
        HEAD + b"X: a\0b\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ]:
        assert _reject(data) == (400, "Bad Request")
    for method in (b"TRACE /", b"CONNECT localhost:8080"):
        assert _reject(method + b" HTTP/1.1\r\n" + HOST + b"\r\n")[0] == 405


@pytest.mark.parametrize("piece", [1, 500, 100_000])
def test_a_header_has_at_most_8_kb_and_a_head_32_kb(piece: int) -> None:
    def cut(data: bytes) -> list[bytes]:
        return [data[at : at + piece] for at in range(0, len(data), piece)]

    line = b"X-Big: ".ljust(8190, b"a") + b"\r\n"
    assert len(_feed(*cut(HEAD + line + b"\r\n")).requests) == 1
    too_large = _reject(*cut(HEAD + b"a" + line + b"\r\n"))
    assert too_large == (400, "Request Header Or Cookie Too Large")
    assert _reject(*cut(b"GET /?" + b"a" * 8192 + b" HTTP/1.1\r\n\r\n"))[0] == 414


def test_a_head_is_counted_alone_and_one_without_an_end_isnt_kept() -> None:
    reader = _feed(HEAD + b"X-Big: ", *[b"a" * 4096] * 8)
    with pytest.raises(BadRequestError, match="too long"):
        reader.feed(b"a" * 4096)

    body = b"Content-Length: 100000\r\n\r\n" + b"a" * 100_000
    reader = _feed(HEAD + body + HEAD[:10], HEAD[10:] + b"\r\n")
    sizes = [len(one.body) for one, _ in reader.requests if isinstance(one, HttpRequest)]
    assert sizes == [100_000, 0]


def test_a_caller_who_waits_before_the_body_is_told_to_continue_once() -> None:
    reader = _feed(HEAD + b"Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n")
    assert reader.wants_continue
    reader.wants_continue = False  # as the server that has written it
    reader.feed(b"a")
    assert not reader.wants_continue
    reader.feed(b"b")
    assert (reader.wants_continue, len(reader.requests)) == (False, 1)

    data = HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\nab"
    assert not _feed(data).wants_continue


def test_headers_and_answers_are_passed_on_as_nginx_does() -> None:
    ((request, _),) = _read(HEAD + b"X_One: 1\r\nX-Two: \xe9\r\n\r\n", [])
    assert [request.headers.find_value(name) for name in ("X_One", "X-Two")] == [None, "\xe9"]

    data = b"POST /models?a=1 HTTP/1.1\r\n" + HOST + b"Content-Type: a/b\r\nTE: trailers\r\n"
    ((request, _),) = _read(data + b"Content-Type: c/d\r\nX-A: 1\r\n\r\n", [])
    assert build_gunicorn_request(request) == (
        b"POST /models?a=1 HTTP/1.0\r\nHost: gunicorn_upstream\r\nConnection: close\r\n"
        b"Content-Type: c/d\r\nX-A: 1\r\n\r\n"
    )
    assert _read(TWO, [])[0][0].headers.find_value("Accept") is None
    ((request, _),) = _read(GET + b"Accept:  text/csv \r\n\r\n", [])
    assert request.headers.find_value("Accept") == "text/csv"

    assert b"Content-Length: 3\r\n" in encode_response(HttpResponse(200, b"abc"), keep_alive=True)
    found = encode_response(HttpResponse(200, b"abc"), keep_alive=True, head=True)
    assert (b"Content-Length: 3\r\n" in found, found.endswith(b"\r\n\r\n")) == (True, True)


NEW, OLD = find_image_code("2.20"), find_image_code("2.19")


def test_csv_becomes_instances_as_in_the_version() -> None:
    cases: list[tuple[str, object]] = [
        ("1.5,2\n3,4\n", [[1.5, 2], [3, 4]]),
        ("1\n2", [1, 2]),
        ("word", ["word"]),
        ('"a,b","c"', [["a,b", "c"]]),
        ("1,2\n\n3,4", [[1, 2], [3, 4]]),
    ]
    for sent, instances in cases:
        for image in (NEW, OLD):
            body = convert_body("text/csv", sent.encode(), image)
            assert isinstance(body, bytes)
            assert json.loads(body) == {"instances": instances}
    assert json.loads(convert_csv_up_to_2_19(b"a,b,c")) == {"instances": [["a", "b,c"]]}


def test_a_body_and_the_type_of_its_answer_are_those_of_the_version() -> None:
    assert convert_body("application/json", None, NEW) == b'{"instances":[undefined]}'
    for kind, body, image, status, text in [
        ("text/csv", None, NEW, 500, ""),
        ('A/"B', b"", NEW, 415, '{"error":"Unsupported Media Type: a/\\"b"}'),
        ('A/"B', b"", OLD, 415, '{"error": "Unsupported Media Type: A/"B"}'),
    ]:
        answer = convert_body(kind, body, image)
        assert isinstance(answer, HttpResponse)
        assert (answer.status, text in answer.body.decode()) == (status, True)
    for image, accept, kind in [
        (NEW, "text/csv, application/jsonlines", "application/json"),
        (OLD, "application/jsonlines,text/csv", "application/jsonlines"),
        (NEW, "application/json;q=1", "kept"),
    ]:
        answer = HttpResponse(200, b"a\nb", "kept")
        assert apply_accept_header(accept, answer, image).content_type == kind


def test_a_path_is_read_and_written_as_a_real_nginx_1_22_did() -> None:
    for sent, read in [
        ("/models//x", "/models/x"),
        ("/models/..", "/"),
        ("/models/%2e%2e", "/"),
        ("/invocations/.", "/invocations/"),
        ("/x/../invocations", "/invocations"),
        ("/%70ing", "/ping"),
        ("/models/a%2Fb/", "/models/a/b/"),
        ("/a/.../b", "/a/.../b"),
    ]:
        assert normalize_path(sent) == read
    for sent in ["/..", "/a/../../b", "/%zz", "/a%", "/%00"]:
        assert normalize_path(sent) is None
    assert escape_path("/models/a b%?#\xe9") == "/models/a%20b%25%3F%23%E9"


def _status(
    *hosts: bytes, origin: bytes | None = None, target: bytes = b"/invocations", port: int = 8080
) -> int | None:
    refused = explain_rejection(list_own_hosts(port), hosts=hosts, origin=origin, target=target)
    return None if refused is None else refused[0]


def test_a_loopback_name_or_address_with_the_servers_port_goes_through() -> None:
    for host in [b"127.0.0.1:8080", b"localhost:8080", b"LocalHost:8080", b"[::1]:8080"]:
        assert _status(host) is None
    for host in [b"localhost", b"localhost:80", b"127.0.0.1", b"[::1]"]:
        assert _status(host, port=80) is None


def test_every_other_host_and_origin_is_403_and_none_or_several_400() -> None:
    for host in [
        b"evil.example:8080", b"evil.example", b"localhost.evil.example:8080", b"evil.localhost:8080",
        b"localhost.:8080", b"127.0.0.1.:8080", b"127.0.0.1", b"localhost", b"localhost:", b"localhost:80",
        b"localhost:08080", b"localhost:8080:8080", b"user@localhost:8080", b"127.1:8080",
        b"2130706433:8080", b"0x7f.0.0.1:8080", b"127.0.0.2:8080", b"0.0.0.0:8080", b"::1:8080",
        b"[::ffff:127.0.0.1]:8080", b"gunicorn_upstream", b"tfs_upstream",
        b"localhost:8080, localhost:8080", b" localhost:8080", b"", b"\xff",
    ]:  # fmt: skip
        assert _status(host) == 403
    for origin in [b"https://evil.example", b"null", b"", b"http://localhost:8080"]:
        assert _status(b"localhost:8080", origin=origin) == 403

    assert (_status(), _status(b"localhost:8080", b"localhost:8080")) == (400, 400)
    for target in [b"http://localhost:8080/ping", b"*", b"localhost:8080", b""]:
        assert _status(b"localhost:8080", target=target) == 400

    own, hosts = list_own_hosts(8080), [b"evil.example"]
    refused = explain_rejection(own, hosts=hosts, origin=None, target=b"/")
    assert refused is not None
    assert refused[1] == (
        "Host 'evil.example': not an address of this server; "
        "allowed: 127.0.0.1:8080, [::1]:8080, localhost:8080"
    )


@given(st.text("0123456789.:[]lochstLOCHST@%\t evil", max_size=24).map(str.encode))
def test_a_host_that_goes_through_is_loopback_for_urllib_and_ipaddress(host: bytes) -> None:
    if _status(host) is None:
        parsed = urlsplit(f"http://{host.decode()}/")
        name = parsed.hostname or ""
        assert parsed.port == 8080
        assert name == "localhost" or ipaddress.ip_address(name).is_loopback
