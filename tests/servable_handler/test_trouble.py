"""Model servers that are killed, freeze, or abort over a request, behind an endpoint with callers."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import numpy as np
import psutil
import pytest
import requests

from servable_local.container.launch import EndpointProcess, launch
from tests.conformance.asking import eventually
from tests.conformance.conftest import Double
from tests.servable_handler.conftest import npy, predict_request
from tests.servable_handler.endpoints import RANKER, ROOT, golden, packed

pytestmark = pytest.mark.long

CALLERS = 4
BODY = predict_request(**golden()[0])
ALLOWED_FAILURES = 8
BACK_WITHIN_SECONDS = 2.0


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EndpointProcess]:
    """Two model servers, and requests with a deadline of 2 s."""
    folder = tmp_path_factory.mktemp("trouble")
    archive = packed(folder / "model.tar.gz", {"ranker": RANKER / "model"})
    variables = {"SAGEMAKER_TFS_INSTANCE_COUNT": "2", "SERVABLE_REQUEST_TIMEOUT_SECONDS": "2"}
    with launch(archive, variables) as process:
        yield process


@contextmanager
def callers(url: str) -> Iterator[None]:
    """Four of them, one request after the other, until the block ends: few fail, and in known ways."""
    ended, statuses = threading.Event(), Counter[int]()

    def call() -> None:
        with requests.Session() as session:
            headers = {"Content-Type": "application/x-protobuf"}
            while not ended.is_set():
                answer = session.post(f"{url}/invocations", BODY, headers=headers, timeout=30)
                statuses[answer.status_code] += 1

    with ThreadPoolExecutor(CALLERS) as pool:
        calls = [pool.submit(call) for _ in range(CALLERS)]
        time.sleep(0.5)
        try:
            yield
        finally:
            ended.set()
    for one in calls:
        one.result()
    assert statuses.total() - statuses[200] <= ALLOWED_FAILURES, statuses
    assert set(statuses) <= {200, 503, 504}


def computes_soon(endpoint: EndpointProcess, pid: int) -> bool:
    """Whether the first model server, once it answers for its status, soon computes for callers."""
    # One that is started anew keeps its REST port.
    port = psutil.Process(endpoint.parts.workers[0]).environ()["TFS_REST_PORTS"].split(",")[0]

    def answers_for_its_status() -> bool:
        with suppress(requests.RequestException):
            url = f"http://127.0.0.1:{port}/v1/models/ranker"
            return bool(requests.get(url, timeout=0.2).ok)
        return False

    assert eventually(answers_for_its_status)
    process = psutil.Process(pid)
    before = process.cpu_times().user
    # Some dozen predictions, in ticks of 10 ms: its status alone costs less.
    return eventually(lambda: process.cpu_times().user - before > 0.025, BACK_WITHIN_SECONDS)


def test_one_killed_costs_at_most_eight_requests_and_comes_back(endpoint: EndpointProcess) -> None:
    servers = set(endpoint.parts.model_servers)
    with callers(endpoint.url):
        os.kill(endpoint.parts.model_servers[0], signal.SIGKILL)
        assert eventually(lambda: len(set(endpoint.parts.model_servers) - servers) == 1)
        assert eventually(lambda: len(endpoint.parts.model_servers) == 2)
        (restarted,) = set(endpoint.parts.model_servers) - servers
        assert computes_soon(endpoint, restarted)


def test_one_frozen_costs_at_most_eight_requests_and_comes_back(endpoint: EndpointProcess) -> None:
    frozen = endpoint.parts.model_servers[0]
    with callers(endpoint.url):
        os.kill(frozen, signal.SIGSTOP)
        try:
            time.sleep(6)
        finally:
            os.kill(frozen, signal.SIGCONT)
        assert computes_soon(endpoint, frozen)


GOOD = json.dumps({"inputs": [[[[1.0]]]]}).encode()
DEADLY = {
    "REST": ("application/json", json.dumps({"inputs": [[1.0, 2.0]]}).encode()),
    "small calls": ("application/x-npy", npy(np.ones((2, 3), np.float32))),
    "grpcio": ("application/x-npy", npy(np.ones((2, 5_000), np.float32))),
}


@pytest.fixture(scope="module")
def aborting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    """Four model servers of a model over which TensorFlow aborts."""
    folder = tmp_path_factory.mktemp("conv2d")
    command = [sys.executable, "-m", "tests.servable_handler.conv2d", str(folder / "conv2d")]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    archive = packed(folder / "model.tar.gz", {"conv2d": folder / "conv2d"})
    # TensorFlow turns oneDNN on by itself only where the processor has AVX-512.
    variables = {"SAGEMAKER_TFS_INSTANCE_COUNT": "4", "TF_ENABLE_ONEDNN_OPTS": "1"}
    with launch(archive, variables) as process:
        yield Double(process)


def all_four(aborting: Double) -> set[int]:
    """Their process numbers, once four run."""
    assert eventually(lambda: len(set(aborting.process.parts.model_servers)) == 4)
    return set(aborting.process.parts.model_servers)


def test_where_the_signature_says_the_rank_another_is_400_and_ends_none(aborting: Double) -> None:
    before = all_four(aborting)
    for content_type, body in [
        DEADLY["REST"],
        ("application/json", b'{"inst\\u0061nces": [1.0]}'),
        ("text/csv", b"1,2,3"),
        ("application/jsonlines", b"[1]\n[2]"),
        ("application/x-npy", npy(np.ones((2, 3), np.float32))),
        ("application/x-protobuf", predict_request(x=np.ones((2, 3), np.float32))),
    ]:
        answer = aborting.post(body, content_type, attributes="tfs-signature-name=images")
        assert answer.status_code == 400, answer.text
    answer = aborting.post(GOOD, attributes="tfs-signature-name=images")
    assert (answer.status_code, all_four(aborting)) == (200, before)


@pytest.mark.parametrize("transport", DEADLY)
def test_a_request_over_which_tensorflow_aborts_ends_one_model_server_and_is_503(
    transport: str, aborting: Double
) -> None:
    for _ in range(8):
        assert aborting.post(GOOD).status_code == 200
    before = all_four(aborting)
    content_type, body = DEADLY[transport]
    answer = aborting.post(body, content_type)
    time.sleep(2)  # a second one would have ended by now
    assert len(before & all_four(aborting)) == 3
    assert answer.status_code == 503, answer.text
    assert "it wasn't retried" in answer.json()["error"]
    assert "Retry-After" not in answer.headers
    assert aborting.post(GOOD).status_code == 200
