"""What the local AWS answers about itself: its clock, and fault injection."""

import threading
import time
from datetime import datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from servable_local.aws import LocalAws
from servable_local.aws.clock import ManualClock, ScaledClock
from servable_local.aws.loopback import CLOCK_PATH, FAULT_PATH, HEALTH_PATH
from servable_local.aws.request_router import Controls
from servable_local.aws.sagemaker.instances import InstanceFaults, Shortage


def test_a_clock_that_stands_still_is_moved_from_outside(embedded: LocalAws) -> None:
    before = embedded.now()
    assert embedded.advance(minutes=3) - before == timedelta(minutes=3)
    controls = Controls(ScaledClock(seconds_per_minute=1), lambda *whose: None)  # type: ignore[arg-type]
    error = {"error": "this clock runs by itself and can't be advanced"}
    assert controls.respond(CLOCK_PATH, {"seconds": 60}) == ("409 Conflict", error)
    with pytest.raises(ValueError, match="Could not find endpoint"):
        embedded.inject_fault("absent", latency_ms=100)


class Faults:
    """A container's faults, which are remembered."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.calls.append((name, *given))


class Region:
    """An account's region with the endpoint `ranker`: two containers, and one in the fleet of its rollout."""

    def __init__(self) -> None:
        self.faults = [Faults() for _ in range(3)]
        self.shortage = Shortage()
        both = [self._fleet(*faults) for faults in (self.faults[:2], self.faults[2:])]
        fleets = {"fleet": both[0], "rollout": SimpleNamespace(fleet=both[1])}
        none = {"overhead_seconds": 0.0, "instance_faults": InstanceFaults()}
        self.ranker: Any = SimpleNamespace(**none, **fleets)
        self.asked: list[tuple[str, str]] = []
        self.controls = Controls(ManualClock(), self._target)

    @staticmethod
    def _fleet(*faults: Faults) -> Any:
        containers = [SimpleNamespace(faults=one) for one in faults]
        variant = SimpleNamespace(instances=SimpleNamespace(containers=containers))
        return SimpleNamespace(variants={"primary": variant})

    def _target(self, account: str, region: str) -> Any:
        self.asked.append((account, region))
        return SimpleNamespace(
            endpoints=SimpleNamespace(find={"ranker": self.ranker}.__getitem__),
            list_components=lambda endpoint: [],
            shortage=self.shortage,
        )

    def inject(self, **kinds: Any) -> tuple[str, dict[str, Any]]:
        given = {"account": "1", "region": "eu-west-1", "endpoint": "ranker", **kinds}
        answer = self.controls.respond(FAULT_PATH, given)
        assert answer is not None
        return answer


@pytest.fixture
def region() -> Region:
    return Region()


def test_a_fault_reaches_every_container_of_both_fleets() -> None:
    for kind, value, *call in [
        ("latency_ms", 50, "slow", 50), ("status", 503, "fail", 503), ("end", True, "end"),
        ("queue_full", True, "fill_queue", True), ("freeze", "nginx", "freeze", "nginx"),
        ("thaw", "nginx", "thaw", "nginx"), ("kill", "gunicorn", "kill", "gunicorn"),
    ]:  # fmt: skip
        region = Region()
        assert region.inject(**{str(kind): value}) == ("200 OK", {})
        assert [faults.calls for faults in region.faults] == [[tuple(call)]] * 3


def test_a_fault_reaches_the_fleets_of_the_region_and_a_shortage_all_of_it(region: Region) -> None:
    region.ranker.rollout = None
    region.inject(status=500)
    assert [len(faults.calls) for faults in region.faults] == [1, 1, 0]
    assert region.asked == [("1", "eu-west-1")]
    region.ranker.fleet = region.ranker.rollout = None
    assert region.inject(status=500)[0] == "200 OK"

    given = {"account": "1", "region": "r", "no_capacity": ["ml.c5.xlarge"]}
    answer = region.controls.respond(FAULT_PATH, given)
    types = ("ml.c5.xlarge", "ml.c6i.xlarge")
    assert (answer, region.shortage.find_available(types)) == (("200 OK", {}), "ml.c6i.xlarge")
    for kind in ("a", "b"):
        region.inject(no_capacity=[kind])
    assert [region.shortage.find_available((kind,)) for kind in ("a", "b")] == ["a", None]


def test_faults_of_sagemaker_and_its_instances_are_set_and_ended(region: Region) -> None:
    region.inject(overhead_ms=250)
    assert (region.ranker.overhead_seconds, region.faults[0].calls) == (0.25, [])

    region.inject(start_seconds=90, capacity=3)
    faults = region.ranker.instance_faults
    assert (faults, region.faults[0].calls) == (InstanceFaults(start_seconds=90, capacity=3), [])

    region.inject(start_seconds=90, capacity=3, overhead_ms=250)
    region.inject(end=True)
    assert region.ranker.overhead_seconds == 0.0
    assert region.ranker.instance_faults == InstanceFaults()


def test_what_is_no_control_is_not_answered(region: Region) -> None:
    kinds = "latency_ms, status, queue_full, freeze, thaw, kill, end, overhead_ms, start_seconds, capacity"
    error = {"error": f"melt isn't a fault that can be injected; allowed: {kinds}"}
    assert region.inject(melt=1) == ("400 Bad Request", error)

    answer = region.controls.respond(FAULT_PATH, {"account": "1", "region": "r"})
    assert answer is not None
    assert answer[0] == "400 Bad Request"
    assert region.controls.respond(FAULT_PATH, None) is None
    assert region.controls.respond("/servable/absent", {}) is None


def test_health_and_clock_are_answered(region: Region) -> None:
    def respond(path: str, asked: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        answer = region.controls.respond(path, asked)
        assert answer is not None
        return answer

    status, health = respond(HEALTH_PATH)
    assert (status, health["pid"] > 1) == ("200 OK", True)
    before, after = (respond(CLOCK_PATH, asked)[1] for asked in (None, {"seconds": 90}))
    seconds = [int(one["now"][17:19]) for one in (before, after)]
    assert before["now"] != after["now"]
    assert ((seconds[1] - seconds[0]) % 60, after["seconds_per_minute"]) == (30, None)


def test_a_manual_clock_is_moved_by_hand_and_a_scaled_one_is_faster() -> None:
    clock = ManualClock()
    assert clock.now() == clock.now()

    clock, ticks = ManualClock(datetime(2026, 1, 1)), list[datetime]()
    clock.call_every_tick(ticks.append)
    clock.advance(seconds=35)
    assert [tick.second for tick in ticks] == [10, 20, 30]

    clock, seen = ManualClock(), list[bool]()
    clock.call_every_tick(lambda due: seen.append(due == clock.now()))
    clock.advance(minutes=1)
    assert seen == [True] * 6

    clock = ManualClock()
    before = clock.measure_seconds()
    clock.pause(100)
    assert clock.measure_seconds() - before == 100

    clock = ScaledClock(seconds_per_minute=0.6)
    before = clock.now()
    time.sleep(0.05)
    assert clock.now() - before >= timedelta(seconds=5)

    clock = ScaledClock(seconds_per_minute=0.1)
    before, real = clock.measure_seconds(), time.monotonic()
    clock.pause(0.01)
    assert 0.01 <= clock.measure_seconds() - before <= time.monotonic() - real + 0.001


def test_a_scaled_clock_leaves_no_tick_out() -> None:
    clock, ticks, enough = ScaledClock(seconds_per_minute=0.1), list[datetime](), threading.Event()

    def slow(due: datetime) -> None:
        time.sleep(0.03)  # longer than a tick lasts
        ticks.append(due)
        if len(ticks) == 5:
            enough.set()

    clock.call_every_tick(slow)
    enough.wait(10)
    clock.stop()
    gaps = {(after - before).total_seconds() for before, after in pairwise(ticks)}
    assert gaps == {10}
