"""What SageMaker and the image's nginx.conf require of connections, and that no port serves a web page.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html (2026-11-22)
"""

import http.client
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import numpy as np
import psutil
import pytest

from tests.conformance.asking import Endpoint, listening
from tests.conformance.conftest import Double

pytestmark = pytest.mark.long

ROW = b'{"instances": [[1.0, 2.0]]}'
JSON = "Content-Type: application/json"
FORM = "Content-Type: text/plain"  # what a page may send to any site without asking first
PREDICT = "/v1/models/numbers:predict"
Seen = tuple[int, bytes]


@pytest.fixture(params=["plain", "coded"])
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    found: Endpoint = request.getfixturevalue(request.param)
    return found


def _head(start: str, *headers: str) -> bytes:
    return "\r\n".join([start, *headers, "", ""]).encode()


def _post(*headers: str, path: str = "/invocations", version: str = "1.1") -> bytes:
    length = f"Content-Length: {len(ROW)}"
    return _head(f"POST {path} HTTP/{version}", length, *headers) + ROW


def _own(url: str) -> str:
    return f"Host: {urlsplit(url).netloc}"


def _socket(endpoint: Endpoint) -> socket.socket:
    url = urlsplit(endpoint.url)
    return socket.create_connection((url.hostname, url.port or 80), timeout=30)


def _answer(wire: socket.socket) -> Seen:
    response = http.client.HTTPResponse(wire)
    response.begin()
    return response.status, response.read()


def _asked(wire: socket.socket, endpoint: Endpoint, *headers: str) -> Seen:
    wire.sendall(_post(_own(endpoint.url), JSON, *headers))
    return _answer(wire)


def test_a_connection_gives_equal_requests_one_answer_until_it_is_asked_to_close(
    endpoint: Endpoint,
) -> None:
    with _socket(endpoint) as wire:
        first = _asked(wire, endpoint)
        assert {_asked(wire, endpoint) for _ in range(300)} == {first}
        # Nothing is compressed, and a body in chunks is read as one with a length.
        assert _asked(wire, endpoint, "Accept-Encoding: gzip, deflate, br") == first
        own = _own(endpoint.url)
        wire.sendall(_head("POST /invocations HTTP/1.1", own, JSON, "Transfer-Encoding: chunked"))
        for part in (ROW[:10], ROW[10:], b""):
            wire.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        assert _answer(wire) == first
        assert _asked(wire, endpoint, "Connection: close") == first
        assert wire.recv(1) == b""


def test_who_expects_100_continue_is_answered_and_what_is_no_http_is_400(
    endpoint: Endpoint,
) -> None:
    waiting = _post(_own(endpoint.url), JSON, "Expect: 100-continue").removesuffix(ROW)
    for sent, status in [(waiting, b"100"), (b"\x16\x03\x01 hello\r\n\r\n", b"400")]:
        with _socket(endpoint) as wire:
            wire.sendall(sent)
            assert wire.recv(1000).split(b" ")[:2] == [b"HTTP/1.1", status]


def test_callers_at_once_get_each_their_own_answer(endpoint: Endpoint) -> None:
    bodies = [b'{"instances": [[%d.5, 1.0]]}' % number for number in range(16)]
    alone = [endpoint.post(body).content for body in bodies]
    assert len(set(alone)) == 16
    with ThreadPoolExecutor(16) as callers:
        together = callers.map(lambda body: endpoint.post(body).content, bodies)
        assert list(together) == alone


def test_an_idle_connection_is_kept_for_2_s_and_not_for_8_s(plain: Endpoint) -> None:
    with _socket(plain) as wire:
        first = _asked(wire, plain)
        time.sleep(2)
        assert _asked(wire, plain) == first
        wire.settimeout(8)  # keepalive_timeout is 3, and NGINX looks when it has time
        began = time.monotonic()
        assert wire.recv(1) == b""
        assert time.monotonic() - began >= 2


def test_megabytes_go_both_ways_and_every_digit_of_a_float32(plain: Endpoint) -> None:
    # NGINX passes a body on from memory only up to its buffers' size, and refuses one above
    # client_max_body_size: 1 MB by default, and 6 MB was InvokeEndpoint's limit.
    for size in (20_000, 65_536, 6_000_000, 7_000_000):
        # Numbers, so that no two parts are alike, and letters that the model makes large.
        text = "".join(f"{number}x" for number in range(size // 4))[:size]
        answer = plain.post({"instances": [text]}, attributes="tfs-model-name=words")
        assert answer.json()["predictions"][0]["upper"] == text.upper()
    rows = np.array([[0.1, 1 / 3], [2 / 3, 1e-7], [123456.789, -98765.4321]], np.float32)
    found = np.array(plain.predictions({"instances": rows.tolist()}), np.float32)
    assert np.array_equal(found, rows * np.float32(3))


def test_code_may_take_4_s_and_ping_is_answered_meanwhile(coded: Endpoint) -> None:
    with ThreadPoolExecutor(1) as caller:
        answer = caller.submit(coded.do, "sleep", b"4")
        time.sleep(1)
        pinged = coded.get("/ping")
        assert (pinged.status_code, answer.done()) == (200, False)
        assert answer.result().text == "slept"


def _port(double: Double) -> int:
    return int(double.url.rpartition(":")[2])


def _front_and_model_server(double: Double) -> dict[str, tuple[str, str]]:
    """Address and path of a prediction; the first model server's gRPC port is the one below REST's."""
    rest_port = listening(double.process.parts.model_servers[0])[1][1]
    rest = f"http://127.0.0.1:{rest_port}"
    return {"front": (double.url, "/invocations"), "model server": (rest, PREDICT)}


def _sent(url: str, data: bytes) -> bytes:
    """All that comes back until the server closes, or says nothing more for a while."""
    received = b""
    with _socket(Endpoint(url)) as wire:
        wire.sendall(data)
        try:
            while piece := wire.recv(65536):
                received += piece
                if b"\r\n\r\n" in received:
                    wire.settimeout(0.3)
        except (TimeoutError, ConnectionResetError):
            pass
    return received


def _status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def test_a_program_on_this_computer_is_answered(plain_double: Double) -> None:
    for name in ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"]:
        for version in ["1.0", "1.1"]:
            sent = _post(f"Host: {name}:{_port(plain_double)}", JSON, version=version)
            assert _status(_sent(plain_double.url, sent)) == 200


REFUSED = {
    "another name": (403, ["Host: evil.example:{port}"]),
    "another port": (403, ["Host: 127.0.0.1:1"]),
    "no port": (403, ["Host: 127.0.0.1"]),
    "a trailing dot": (403, ["Host: localhost.:{port}"]),
    "an address in another form": (403, ["Host: 127.1:{port}"]),
    "NGINX's name of its upstream": (403, ["Host: tfs_upstream"]),
    "no Host": (400, []),
    "two Hosts": (400, ["Host: 127.0.0.1:{port}", "Host: evil.example"]),
    "two Hosts, the other first": (400, ["Host: evil.example", "host: 127.0.0.1:{port}"]),
    "an Origin": (403, ["Host: 127.0.0.1:{port}", "Origin: https://evil.example"]),
    "the Origin of a sandboxed page": (403, ["Host: 127.0.0.1:{port}", "ORIGIN: null"]),
    "an Origin without a value": (403, ["Host: 127.0.0.1:{port}", "Origin:"]),
    "our own Origin": (403, ["Host: 127.0.0.1:{port}", "Origin: http://127.0.0.1:{port}"]),
}


def test_what_a_page_may_have_sent_is_refused(plain_double: Double) -> None:
    for where, (url, path) in _front_and_model_server(plain_double).items():
        for case, (status, headers) in REFUSED.items():
            for version in ["1.0", "1.1"]:
                lines = [header.format(port=urlsplit(url).port) for header in headers]
                answer = _sent(url, _post(JSON, *lines, path=path, version=version))
                found = (case, _status(answer), b"predictions" in answer)
                assert found == (case, status, False), answer
                # What NGINX refuses too has its page.
                assert b'{"error": "' in answer or (where, status) == ("front", 400)
                assert b"Connection: close" in answer
        absolute = _post(_own(url), JSON, path=f"{url}{path}")
        assert _status(_sent(url, absolute)) == 400


def test_a_refused_request_is_answered_in_its_turn_and_the_last(plain_double: Double) -> None:
    for url, path in _front_and_model_server(plain_double).values():
        wanted = _post(_own(url), JSON, path=path)
        forged = _post(_own(url), FORM, "Origin: null", path=path)
        answer = _sent(url, wanted + forged + wanted)
        assert [one[:3] for one in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"403"]


def test_no_answer_permits_another_origin(plain_double: Double, coded_double: Double) -> None:
    foreign = "Origin: https://evil.example"
    for name in ["Method: POST", "Private-Network: true"]:
        asked = f"Access-Control-Request-{name}"
        lines = ["OPTIONS /invocations HTTP/1.1", _own(plain_double.url), foreign, asked]
        answer = _sent(plain_double.url, _head(*lines))
        assert (_status(answer), b"access-control" in answer.lower()) == (403, False)
    own = _own(coded_double.url)
    lines = ["GET /invocations HTTP/1.1", own, "Connection: Upgrade", "Upgrade: websocket", foreign]
    lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    assert _status(_sent(coded_double.url, _head(*lines))) in (400, 403)
    answer = _sent(coded_double.url, _post(own, JSON))
    assert (_status(answer), b"access-control" in answer.lower()) == (200, False)


def _ports_of_all_processes(double: Double) -> list[tuple[str, int]]:
    supervisor = psutil.Process(double.process.pid)
    every = [supervisor, *supervisor.children(recursive=True)]
    return [address for one in every for address in listening(one.pid)]


def test_every_port_of_a_container_is_on_127_0_0_1_and_none_predicts_for_a_page(
    plain_double: Double, coded_double: Double
) -> None:
    """The nginx stand-in, REST and gRPC, which speaks HTTP/2 without TLS alone: no browser does."""
    for double in (plain_double, coded_double):
        # gRPC's socket is one of IPv6, on the same address.
        addresses = {address for address, _ in _ports_of_all_processes(double)}
        assert addresses == {"127.0.0.1", "::ffff:127.0.0.1"}
    urls = [f"http://127.0.0.1:{port}" for _, port in _ports_of_all_processes(plain_double)]
    assert len(urls) == 3
    for url in urls:
        for path in ("/invocations", PREDICT, "/tensorflow.serving.PredictionService/Predict"):
            for kind in ("text/plain", "application/json", "application/grpc"):
                lines = (_own(url), f"Content-Type: {kind}", "Origin: https://evil.example")
                answer = _sent(url, _post(*lines, path=path))
                assert b"predictions" not in answer
                assert not answer.startswith(b"HTTP/1.1 2")
