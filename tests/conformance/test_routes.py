"""What NGINX answers on which path, and how it keeps connections."""

import socket
import time
from urllib.parse import urlparse

import pytest
import requests

from tests.conformance.asking import Endpoint
from tests.conformance.conftest import Double

pytestmark = pytest.mark.long

ROW = b'{"instances": [[1.0, 2.0]]}'


def _connection(endpoint: Endpoint) -> socket.socket:
    url = urlparse(endpoint.url)
    assert url.hostname is not None
    return socket.create_connection((url.hostname, url.port or 80), timeout=30)


def _request(endpoint: Endpoint, *headers: str) -> bytes:
    lines = ["POST /invocations HTTP/1.1", f"Host: {urlparse(endpoint.url).netloc}"]
    lines += ["Content-Type: application/json", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_ping_is_200_and_another_path_leads_nowhere(plain: Endpoint, coded: Endpoint) -> None:
    assert plain.get("/ping").status_code == 200
    assert coded.get("/ping").status_code == 200
    for path in ["/", "/metrics", "/v1/models/numbers"]:
        answer = plain.get(path)
        assert (answer.status_code, answer.json()) == (404, {"error": "Not Found"})
    assert plain.get("/models").status_code == 502


def test_the_model_servers_own_interface_is_below_tfs(plain_double: Double) -> None:
    # Only from inside: SageMaker forwards /ping and /invocations.
    states = plain_double.get("/tfs/v1/models/numbers").json()["model_version_status"]
    assert [(one["version"], one["state"]) for one in states] == [
        ("2", "AVAILABLE"),
        ("1", "AVAILABLE"),
    ]
    states = plain_double.get("/tfs/v1/models/numbers/versions/1").json()["model_version_status"]
    assert [one["version"] for one in states] == ["1"]

    found = plain_double.get("/tfs/v1/models/numbers/metadata").json()
    signatures = found["metadata"]["signature_def"]["signature_def"]
    assert set(signatures) >= {"serving_default", "batch", "large", "two"}
    assert signatures["serving_default"]["inputs"]["x"]["dtype"] == "DT_FLOAT"


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("PUT", 405), ("DELETE", 500)])
def test_another_method_than_post_is_no_prediction(
    method: str, status: int, coded: Endpoint
) -> None:
    answer = requests.request(method, f"{coded.url}/invocations", timeout=30)
    assert (answer.status_code, "predictions" in answer.text) == (status, False)


def test_a_body_in_chunks_has_a_length_for_the_code(coded: Endpoint) -> None:
    headers = {"X-Amzn-SageMaker-Custom-Attributes": "do=size"}
    answer = requests.post(
        coded.url + "/invocations", iter([b"abc", b"de"]), headers=headers, timeout=30
    )
    assert answer.json() == [5, 5]


def test_an_idle_connection_is_closed_after_three_seconds(plain: Endpoint) -> None:
    with _connection(plain) as connection:
        connection.sendall(_request(plain, f"Content-Length: {len(ROW)}") + ROW)
        connection.recv(10_000)
        began = time.monotonic()
        assert connection.recv(10_000) == b""
        # Both sides of the bound: not at once, and not after a minute.
        assert 2.5 < time.monotonic() - began < 20.0
