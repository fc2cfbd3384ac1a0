"""What callers see when a part is slow, frozen or gone, and that it comes back."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psutil
import pytest
import requests

from servable_local.container.faults import Part
from tests.conformance.asking import eventually
from tests.conformance.conftest import Double

pytestmark = pytest.mark.long

ROW = {"instances": [[1.0, 2.0]]}
RESTART_SECONDS = 5.0
PEACE_SECONDS = 60.0


@pytest.fixture(autouse=True)
def peace(coded_double: Double, plain_double: Double) -> Iterator[None]:
    """An injected fault ends with its test, and whatever was killed is back."""
    yield
    for double in (coded_double, plain_double):
        double.process.faults.end()
        assert eventually(partial(_answers, double), PEACE_SECONDS)


def _answers(double: Double) -> bool:
    try:
        return double.do("pass_on", ROW).status_code == 200
    except requests.ConnectionError:  # nobody listens: the front is not back yet
        return False


def _kill_for_good(double: Double) -> None:
    """Model servers that stay dead while a test looks: who would start them again is frozen."""
    double.process.faults.freeze("model-server launcher")
    double.process.faults.kill("model server")


def test_with_code_ping_stays_200_while_the_model_server_is_frozen_or_dead(
    coded_double: Double,
) -> None:
    faults = coded_double.process.faults
    faults.freeze("nginx")
    faults.end()  # thaws every part
    faults.freeze("model server")
    assert coded_double.get("/ping").status_code == 200
    faults.end()
    _kill_for_good(coded_double)
    assert coded_double.get("/ping").status_code == 200
    assert coded_double.do("pass_on", ROW).status_code == 500


def test_without_code_ping_and_requests_are_502_while_the_model_server_is_dead(
    plain_double: Double,
) -> None:
    _kill_for_good(plain_double)
    assert plain_double.get("/ping").status_code == 502
    assert plain_double.post(ROW).status_code == 502


@pytest.mark.parametrize("part", ["model server", "worker", "gunicorn", "nginx"])
def test_what_is_killed_is_started_again_and_answers_within_five_seconds(
    part: Part, coded_double: Double
) -> None:
    def processes() -> tuple[int, ...]:
        return coded_double.process.parts.list_processes(part)

    def is_back_in_time() -> bool:
        before = processes()
        coded_double.process.faults.kill(part)
        return eventually(
            lambda: processes() not in ((), before) and _answers(coded_double), RESTART_SECONDS
        )

    # A machine with other work can take 5 s for what takes 0.7 s; three times in a row it does not.
    assert any(is_back_in_time() for _ in range(3))


def test_the_killed_parent_of_the_model_servers_is_back_after_five_seconds_of_processor_time(
    coded_double: Double,
) -> None:
    # It imports TensorFlow: 2 s of a core, and as long as others leave to it on a busy machine.
    process = coded_double.process
    before = process.parts.launcher
    process.faults.kill("model-server launcher")
    assert eventually(
        lambda: process.parts.launcher not in (None, before) and _answers(coded_double),
        PEACE_SECONDS,
    )
    times = psutil.Process(process.parts.launcher).cpu_times()
    assert times.user + times.system < RESTART_SECONDS


def test_a_failing_model_server_and_a_full_queue_are_503(plain_double: Double) -> None:
    plain_double.process.faults.fail(503)
    assert plain_double.post(ROW).status_code == 503

    plain_double.process.faults.fill_queue()
    answer = plain_double.post(ROW)
    assert (answer.status_code, "queue" in answer.json()["error"]) == (503, True)


def test_a_slow_model_delays_its_answers_and_answers_many_at_once(plain_double: Double) -> None:
    plain_double.process.faults.slow(latency_ms=500)
    assert plain_double.post(ROW).elapsed.total_seconds() >= 0.5
    began = time.monotonic()
    with ThreadPoolExecutor(32) as callers:
        answers = list(callers.map(lambda _: plain_double.post(ROW), range(32)))
    # One after the other were 16 s.
    assert {one.status_code for one in answers} == {200}
    assert time.monotonic() - began < 8.0
