"""A request over which TensorFlow aborts, in the endpoint with four model servers."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest

from servable_local.container.launch import launch
from tests.conformance.asking import eventually
from tests.conformance.conftest import Double
from tests.servable_handler.conftest import npy, predict_request
from tests.servable_handler.endpoints import ROOT, packed

pytestmark = pytest.mark.long

GOOD = json.dumps({"inputs": [[[[1.0]]]]}).encode()
DEADLY = {
    "REST": ("application/json", json.dumps({"inputs": [[1.0, 2.0]]}).encode()),
    "small calls": ("application/x-npy", npy(np.ones((2, 3), np.float32))),
    "grpcio": ("application/x-npy", npy(np.ones((2, 5_000), np.float32))),
}


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    folder = tmp_path_factory.mktemp("conv2d")
    command = [sys.executable, "-m", "tests.servable_handler.conv2d", str(folder / "conv2d")]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    archive = packed(folder / "model.tar.gz", {"conv2d": folder / "conv2d"})
    # TensorFlow turns oneDNN on by itself only where the processor has AVX-512.
    variables = {"SAGEMAKER_TFS_INSTANCE_COUNT": "4", "TF_ENABLE_ONEDNN_OPTS": "1"}
    with launch(archive, variables) as process:
        yield Double(process)


def all_four(endpoint: Double) -> set[int]:
    """Their process numbers, once four run."""
    assert eventually(lambda: len(set(endpoint.process.parts.model_servers)) == 4)
    return set(endpoint.process.parts.model_servers)


def test_where_the_signature_says_the_rank_another_is_400_and_ends_no_model_server(
    endpoint: Double,
) -> None:
    before = all_four(endpoint)
    for content_type, body in [
        DEADLY["REST"],
        ("application/json", b'{"inst\\u0061nces": [1.0]}'),
        ("text/csv", b"1,2,3"),
        ("application/jsonlines", b"[1]\n[2]"),
        ("application/x-npy", npy(np.ones((2, 3), np.float32))),
        ("application/x-protobuf", predict_request(x=np.ones((2, 3), np.float32))),
    ]:
        answer = endpoint.post(body, content_type, attributes="tfs-signature-name=images")
        assert answer.status_code == 400, answer.text
    answer = endpoint.post(GOOD, attributes="tfs-signature-name=images")
    assert (answer.status_code, all_four(endpoint)) == (200, before)


@pytest.mark.parametrize("transport", DEADLY)
def test_a_request_over_which_tensorflow_aborts_ends_one_model_server_and_is_503(
    transport: str, endpoint: Double
) -> None:
    for _ in range(8):
        assert endpoint.post(GOOD).status_code == 200
    before = all_four(endpoint)
    content_type, body = DEADLY[transport]
    answer = endpoint.post(body, content_type)
    time.sleep(2)  # a second one would have ended by now
    assert len(before & all_four(endpoint)) == 3
    assert answer.status_code == 503, answer.text
    assert "it wasn't retried" in answer.json()["error"]
    assert "Retry-After" not in answer.headers
    assert endpoint.post(GOOD).status_code == 200
