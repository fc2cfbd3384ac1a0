"""What SageMaker and the image's nginx.conf require of every container, whatever it serves.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html (2026-11-22)
"""

import http.client
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import numpy as np
import pytest

from tests.conformance.asking import Endpoint

pytestmark = pytest.mark.long

ROW = b'{"instances": [[1.0, 2.0]]}'
LENGTH = f"Content-Length: {len(ROW)}"
Seen = tuple[int, bytes]


@pytest.fixture(params=["plain", "coded"])
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    found: Endpoint = request.getfixturevalue(request.param)
    return found


def _socket(endpoint: Endpoint) -> socket.socket:
    url = urlsplit(endpoint.url)
    return socket.create_connection((url.hostname, url.port or 80), timeout=30)


def _head(endpoint: Endpoint, *headers: str) -> bytes:
    lines = ["POST /invocations HTTP/1.1", f"Host: {urlsplit(endpoint.url).netloc}"]
    lines += ["Content-Type: application/json", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _answer(wire: socket.socket) -> Seen:
    response = http.client.HTTPResponse(wire)
    response.begin()
    return response.status, response.read()


def _asked(wire: socket.socket, endpoint: Endpoint, *headers: str) -> Seen:
    wire.sendall(_head(endpoint, LENGTH, *headers) + ROW)
    return _answer(wire)


def test_a_connection_gives_equal_requests_one_answer_until_it_is_asked_to_close(
    endpoint: Endpoint,
) -> None:
    with _socket(endpoint) as wire:
        first = _asked(wire, endpoint)
        assert {_asked(wire, endpoint) for _ in range(300)} == {first}
        # Nothing is compressed, and a body in chunks is read as one with a length.
        assert _asked(wire, endpoint, "Accept-Encoding: gzip, deflate, br") == first
        wire.sendall(_head(endpoint, "Transfer-Encoding: chunked"))
        for part in (ROW[:10], ROW[10:], b""):
            wire.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        assert _answer(wire) == first
        assert _asked(wire, endpoint, "Connection: close") == first
        assert wire.recv(1) == b""


def test_who_expects_100_continue_is_answered_and_what_is_no_http_is_400(
    endpoint: Endpoint,
) -> None:
    for sent, status in [
        (_head(endpoint, LENGTH, "Expect: 100-continue"), b"100"),
        (b"\x16\x03\x01 hello\r\n\r\n", b"400"),
    ]:
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
