"""What callers see when a part is slow, frozen or gone, and that it comes back."""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.conformance.conftest import Double

ROW = {"instances": [[1.0, 2.0]]}
RESTART_SECONDS = 20.0  # 5 s on an idle machine; this one is shared


@pytest.fixture(autouse=True)
def peace(coded_double: Double, plain_double: Double) -> Iterator[None]:
    """Trouble ends with its test, and whatever was killed is back."""
    yield
    for double in (coded_double, plain_double):
        double.process.trouble.end()
        assert _eventually(lambda double=double: double.do("pass_on", ROW).status_code == 200)  # type: ignore[misc]


def _eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + RESTART_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_ping_stays_200_with_code_while_the_model_server_is_frozen(coded_double: Double) -> None:
    coded_double.process.trouble.freeze("model server")
    assert coded_double.get("/ping").status_code == 200


def test_ping_stays_200_with_code_while_the_model_server_is_dead(coded_double: Double) -> None:
    coded_double.process.trouble.kill("model server")
    assert coded_double.get("/ping").status_code == 200


def test_ping_is_502_without_code_while_the_model_server_is_dead(plain_double: Double) -> None:
    plain_double.process.trouble.kill("model server")
    assert plain_double.get("/ping").status_code == 502


def test_a_request_is_502_without_code_while_the_model_server_is_dead(plain_double: Double) -> None:
    plain_double.process.trouble.kill("model server")
    assert plain_double.post(ROW).status_code == 502


def test_a_dead_model_server_is_the_handlers_exception(coded_double: Double) -> None:
    coded_double.process.trouble.kill("model server")
    assert coded_double.do("pass_on", ROW).status_code == 500


@pytest.mark.parametrize("part", ["model server", "worker", "gateway", "front"])
def test_what_is_killed_is_started_again(part: str, coded_double: Double) -> None:
    before = coded_double.process.parts
    workers = before.workers
    coded_double.process.trouble.kill(part)  # type: ignore[arg-type]

    def another() -> bool:
        now = coded_double.process.parts
        pairs = {
            "model server": (before.model_servers, now.model_servers),
            "worker": (workers, now.workers),
            "gateway": (before.gateway, now.gateway),
            "front": (before.front, now.front),
        }
        old, new = pairs[part]
        return bool(new) and old != new

    assert _eventually(another)


def test_a_model_server_that_fails_is_passed_on(plain_double: Double) -> None:
    plain_double.process.trouble.fail(503)
    assert plain_double.post(ROW).status_code == 503


def test_a_full_queue_on_request_is_what_a_full_queue_is(plain_double: Double) -> None:
    plain_double.process.trouble.fill_queue()
    answer = plain_double.post(ROW)
    assert (answer.status_code, "queue" in answer.json()["error"]) == (503, True)


def test_a_slow_model_delays_its_answers(plain_double: Double) -> None:
    plain_double.process.trouble.slow(latency_ms=300)
    assert plain_double.post(ROW).elapsed.total_seconds() >= 0.3


def test_a_slow_model_answers_many_at_once(plain_double: Double) -> None:
    from concurrent.futures import ThreadPoolExecutor

    plain_double.process.trouble.slow(latency_ms=500)
    began = time.monotonic()
    with ThreadPoolExecutor(32) as callers:
        statuses = {
            one.status_code for one in callers.map(lambda _: plain_double.post(ROW), range(32))
        }
    # One after the other were 16 s.
    assert (statuses, time.monotonic() - began < 8.0) == ({200}, True)
