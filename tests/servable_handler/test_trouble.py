"""Two model servers and four callers with a deadline of 2 s: one is killed, then one freezes."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psutil
import pytest
import requests

from servable_local.container.launch import EndpointProcess, launch
from tests.conformance.asking import eventually
from tests.servable_handler.conftest import predict_request
from tests.servable_handler.endpoints import RANKER, golden, packed

pytestmark = pytest.mark.long

CALLERS = 4
BODY = predict_request(**golden()[0])
ALLOWED_FAILURES = 8
BACK_WITHIN_SECONDS = 2.0


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EndpointProcess]:
    archive = packed(
        tmp_path_factory.mktemp("trouble") / "model.tar.gz", {"ranker": RANKER / "model"}
    )
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
        assert eventually(
            lambda: (
                len(endpoint.parts.model_servers) == 2
                and set(endpoint.parts.model_servers) != servers
            )
        )
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
