"""Requests as curl, Python, Java and load balancers send them, to a running container."""

import http.client
import json
import shutil
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from servable_local.container.launch import EndpointProcess
from tests.servable_local.container.endpoint_calls import RANKER

BODY = (RANKER / "golden/request-rows.json").read_bytes()
JSON = {"Content-Type": "application/json"}


def _curl(process: EndpointProcess, path: str, *words: str) -> tuple[str, str]:
    """Return what curl received, and the lines of its protocol."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed here")
    ran = subprocess.run(
        ["curl", "--silent", "--verbose", *words, process.url + path],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ran.stdout, ran.stderr


def _post(file: Path, *words: str) -> list[str]:
    return ["-H", "Content-Type: application/json", "--data-binary", f"@{file}", *words]


@pytest.mark.parametrize("with_handler", [False, True])
def test_curl_sends_large_and_chunked_bodies(
    with_handler: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    process = request.getfixturevalue("with_code" if with_handler else "without_code")
    file = tmp_path / "body.json"
    file.write_bytes(BODY + b" " * 2_000_000)
    for header in ("Expect: 100-continue", "Transfer-Encoding: chunked"):
        received, protocol = _curl(process, "/invocations", *_post(file, "-H", header))
        assert len(json.loads(received)["predictions"]) == len(json.loads(BODY)["instances"])
        # curl waits before a chunked body too.
        assert protocol.count("HTTP/1.1 100 Continue") == 1
        assert protocol.count("HTTP/1.1 200 OK") == 1


def test_curl_offers_http_2_and_gets_http_1(without_code: EndpointProcess, tmp_path: Path) -> None:
    file = tmp_path / "body.json"
    file.write_bytes(BODY)
    received, protocol = _curl(without_code, "/invocations", *_post(file, "--http2"))
    assert ("predictions" in received, "< HTTP/1.1 200 OK" in protocol) == (True, True)


def test_one_connection_carries_head_get_and_post(without_code: EndpointProcess) -> None:
    connection = http.client.HTTPConnection(urlsplit(without_code.url).netloc, timeout=30)
    statuses: list[int] = []
    for method, path, body in (
        ("HEAD", "/ping", None),
        ("GET", "/ping?probe=1", None),
        ("POST", "/invocations", BODY),
        ("POST", "/invocations", iter([BODY[:20], BODY[20:]])),
        ("GET", "//ping", None),
        ("GET", "/favicon.ico", None),
    ):
        connection.request(method, path, body, JSON)
        if not statuses:
            first = connection.sock
        response = connection.getresponse()
        response.read()
        statuses.append(response.status)
        assert connection.sock is first
    connection.close()
    assert statuses == [200, 200, 200, 200, 200, 404]


@pytest.mark.parametrize(
    "data",
    [b"hello\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET /ping HTTP/1.1\r\nno colon\r\n\r\n"],
)
def test_malformed_bytes_get_one_400(data: bytes, without_code: EndpointProcess) -> None:
    parts = urlsplit(without_code.url)
    with socket.create_connection((parts.hostname, parts.port), 30) as connection:
        connection.sendall(data)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert (received.count(b"HTTP/1.1"), b"<center>nginx</center>" in received) == (1, True)
