"""Two model servers and four callers with a deadline of 2 s: one is killed, then one freezes."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest
import requests

from servable_local.container.launch import EndpointProcess, launch
from tests.servable_handler.endpoints import RANKER, golden, packed, post, predict_request

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


class Callers:
    """Four of them, one request after the other, until the block ends. `statuses` counts."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call) for _ in range(CALLERS)]
        self.statuses: Counter[int] = Counter()

    def __enter__(self) -> "Callers":
        for thread in self._threads:
            thread.start()
        time.sleep(0.5)
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def failures(self) -> Counter[int]:
        return Counter({status: n for status, n in self.statuses.items() if status != 200})

    def _call(self) -> None:
        with requests.Session() as session:
            headers = {"Content-Type": "application/x-protobuf"}
            while not self._stop.is_set():
                answer = session.post(f"{self._url}/invocations", BODY, headers=headers, timeout=30)
                self.statuses[answer.status_code] += 1


def check(callers: Callers) -> None:
    assert callers.failures().total() <= ALLOWED_FAILURES, callers.statuses
    assert set(callers.statuses) <= {200, 503, 504}


def rest_port(endpoint: EndpointProcess, server: int) -> int:
    """The REST port of a model server by its number; one that is started anew keeps it."""
    environment = psutil.Process(endpoint.parts.workers[0]).environ()
    return int(environment["TFS_REST_PORTS"].split(",")[server])


def wait_for_its_status(port: int) -> None:
    """Until the model server itself says that it is there."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with suppress(requests.RequestException):
            if requests.get(f"http://127.0.0.1:{port}/v1/models/ranker", timeout=0.2).ok:
                return
        time.sleep(0.02)
    raise AssertionError("the model server does not answer for its status")


def works(pid: int, seconds: float) -> bool:
    """Whether the process computes for callers within these seconds: status alone costs less."""
    process = psutil.Process(pid)
    before, until = process.cpu_times().user, time.monotonic() + seconds
    while time.monotonic() < until:
        # Some dozen predictions; in ticks of 10 ms.
        if process.cpu_times().user - before > 0.025:
            return True
        time.sleep(0.02)
    return False


def wait_until_restarted(endpoint: EndpointProcess, old: tuple[int, ...]) -> int:
    """The process number of the new model server."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        new = set(endpoint.parts.model_servers) - set(old)
        if new and len(endpoint.parts.model_servers) == 2:
            return new.pop()
        time.sleep(0.05)
    raise AssertionError("the model server was not started again")


def test_one_killed_costs_at_most_eight_requests_and_comes_back(endpoint: EndpointProcess) -> None:
    servers = endpoint.parts.model_servers
    with Callers(endpoint.url) as callers:
        os.kill(servers[0], signal.SIGKILL)
        restarted = wait_until_restarted(endpoint, servers)
        wait_for_its_status(rest_port(endpoint, 0))
        assert works(restarted, BACK_WITHIN_SECONDS)
    check(callers)


@pytest.mark.long
def test_one_frozen_costs_at_most_eight_requests_and_comes_back(endpoint: EndpointProcess) -> None:
    frozen = endpoint.parts.model_servers[0]
    with Callers(endpoint.url) as callers:
        os.kill(frozen, signal.SIGSTOP)
        try:
            time.sleep(6)
        finally:
            os.kill(frozen, signal.SIGCONT)
        wait_for_its_status(rest_port(endpoint, 0))
        assert works(frozen, BACK_WITHIN_SECONDS)
    check(callers)


def test_with_the_only_other_one_gone_too_all_failures_are_503_or_504(
    endpoint: EndpointProcess,
) -> None:
    servers = endpoint.parts.model_servers
    for pid in servers:
        os.kill(pid, signal.SIGKILL)
    statuses = {post(endpoint.url, BODY, "application/x-protobuf").status_code for _ in range(3)}
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if post(endpoint.url, BODY, "application/x-protobuf").status_code == 200:
            break
    else:
        raise AssertionError("no server came back")
    assert statuses <= {200, 503, 504}
