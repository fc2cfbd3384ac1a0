"""A request over which TensorFlow aborts, in the endpoint with four model servers."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest

from servable_local.container.launch import EndpointProcess, launch
from tests.servable_handler.conftest import npy
from tests.servable_handler.endpoints import ROOT, packed, post, predict_request

GOOD = json.dumps({"inputs": [[[[1.0]]]]}).encode()
DEADLY = {
    "REST": ("application/json", json.dumps({"inputs": [[1.0, 2.0]]}).encode()),
    "small calls": ("application/x-npy", npy(np.ones((2, 3), np.float32))),
    "grpcio": ("application/x-npy", npy(np.ones((2, 5_000), np.float32))),
}


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EndpointProcess]:
    folder = tmp_path_factory.mktemp("conv2d")
    command = [sys.executable, "-m", "tests.servable_handler.conv2d", str(folder / "conv2d")]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    archive = packed(folder / "model.tar.gz", {"conv2d": folder / "conv2d"})
    # TensorFlow turns oneDNN on by itself only where the processor has AVX-512.
    variables = {"SAGEMAKER_TFS_INSTANCE_COUNT": "4", "TF_ENABLE_ONEDNN_OPTS": "1"}
    with launch(archive, variables) as process:
        yield process


def all_four(endpoint: EndpointProcess) -> set[int]:
    """Their process numbers, once four run."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if len(set(endpoint.parts.model_servers)) == 4:
            return set(endpoint.parts.model_servers)
        time.sleep(0.1)
    raise AssertionError("the model servers were not started again")


@pytest.mark.long
@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        DEADLY["REST"],
        ("application/json", json.dumps({"instances": [1.0]}).encode()),
        ("application/json", json.dumps({"instances": [{"x": [[1.0]]}]}).encode()),
        ("application/json", b'{"inst\\u0061nces": [1.0]}'),
        ("text/csv", b"1,2,3"),
        ("application/jsonlines", b"[1]\n[2]"),
        ("application/x-npy", npy(np.ones((2, 3), np.float32))),
        ("application/x-protobuf", predict_request(x=np.ones((2, 3), np.float32))),
    ],
)
def test_where_the_signature_says_the_rank_another_is_400_and_ends_no_model_server(
    content_type: str, body: bytes, endpoint: EndpointProcess
) -> None:
    before = all_four(endpoint)
    answer = post(endpoint.url, body, content_type, attributes="tfs-signature-name=images")
    assert (answer.status_code, all_four(endpoint)) == (400, before), answer.text


@pytest.mark.long
def test_an_image_of_the_right_rank_is_answered(endpoint: EndpointProcess) -> None:
    attributes = "tfs-signature-name=images"
    answer = post(endpoint.url, GOOD, "application/json", attributes=attributes)
    assert answer.status_code == 200


@pytest.mark.long
@pytest.mark.parametrize("transport", DEADLY)
def test_a_request_over_which_tensorflow_aborts_ends_one_model_server_and_is_503(
    transport: str, endpoint: EndpointProcess
) -> None:
    for _ in range(8):
        assert post(endpoint.url, GOOD, "application/json").status_code == 200
    before = all_four(endpoint)
    content_type, body = DEADLY[transport]
    answer = post(endpoint.url, body, content_type)
    time.sleep(2)  # a second one would have ended by now
    assert len(before & all_four(endpoint)) == 3
    assert answer.status_code == 503, answer.text
    assert "it wasn't retried" in answer.json()["error"]
    assert "Retry-After" not in answer.headers
    assert post(endpoint.url, GOOD, "application/json").status_code == 200
