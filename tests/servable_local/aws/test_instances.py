"""The instances of a variant: how many serve, of which types, and which containers stand for them.

Source of the order of types: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html
"""

import threading
import time
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock

from servable_local.aws.sagemaker.instances import (
    NO_CAPACITY,
    InstanceFaults,
    Shortage,
    VariantInstances,
    list_instance_types,
)

NOW = datetime(2026, 11, 23, 9, 0)
FIRST, SECOND = "ml.c5.xlarge", "ml.c6i.xlarge"


class Container:
    def __init__(self, busy: int = 0) -> None:
        self.busy = busy
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()


def instances(serving: int, *types: str, **more: Any) -> VariantInstances:
    """So many of the first type serve."""
    started: Any = Container
    found = VariantInstances([], 0, started, types or (FIRST,), **more)
    found.set_initial_count(serving)
    return found


def grown(found: VariantInstances, desired: int, *, after_seconds: float = 0.0) -> bool:
    found.scale(desired, NOW)
    return found.admit_ready(NOW + timedelta(seconds=after_seconds), wait=True)


def counts(found: VariantInstances) -> tuple[int, int, int]:
    """desired, serving, containers"""
    return found.desired, found.serving_count, len(found.containers)


def test_more_instances_serve_once_they_have_started() -> None:
    assert counts(instances(3, most_containers=2)) == (3, 3, 2)

    found = instances(1)
    found.scale(3, NOW)
    before = (counts(found), found.is_changing)
    assert (before, found.admit_ready(NOW, wait=True)) == (((3, 1, 1), True), True)
    assert (counts(found), found.is_changing) == ((3, 3, 1), False)
    assert instances(1).admit_ready(NOW, wait=True) is False
    for after_seconds, arrived in [(59, False), (60, True)]:
        found = instances(1, faults=InstanceFaults(start_seconds=60))
        assert grown(found, 2, after_seconds=after_seconds) == arrived
        assert found.serving_count == (2 if arrived else 1)
    for most, containers in [(1, 1), (2, 2), (3, 3), (5, 4)]:
        found = instances(1, most_containers=most)
        grown(found, 4)
        assert counts(found) == (4, 4, containers)


def test_what_is_scaled_in_serves_no_longer_and_its_container_ends() -> None:
    found = instances(3, most_containers=3)
    leaving: Any = found.containers[2]
    grown(found, 2)
    assert counts(found) == (2, 2, 2)
    assert leaving.closed.wait(20)

    found = instances(2, most_containers=2)
    leaving = found.containers[1]
    leaving.busy = 1
    grown(found, 1)
    time.sleep(0.05)
    early = leaving.closed.is_set()
    leaving.busy = 0
    assert (early, leaving.closed.wait(20)) == (False, True)

    found = instances(2, most_containers=2)
    grown(found, 0)
    assert counts(found) == (0, 0, 1)


def test_instances_that_start_go_before_those_that_serve() -> None:
    found = instances(2)
    found.scale(4, NOW)
    found.scale(3, NOW)
    found.admit_ready(NOW, wait=True)
    assert counts(found) == (3, 3, 1)
    found = instances(2)
    assert (grown(found, 2), counts(found)) == (False, (2, 2, 1))


def test_instances_are_of_the_preferred_type() -> None:
    shortage = Shortage()
    found = instances(1, FIRST, SECOND, shortage=shortage)
    shortage.set_types([FIRST])
    grown(found, 3)
    assert found.by_type == {FIRST: 1, SECOND: 2}
    grown(found, 2)
    assert found.by_type == {FIRST: 1, SECOND: 1}

    pools = [{"InstanceType": "b", "Priority": 10}, {"InstanceType": "a", "Priority": 9}]
    assert list_instance_types({"InstanceType": "a"}) == ("a",)
    assert list_instance_types({"ServerlessConfig": {}}) == ()
    assert list_instance_types({"InstancePools": pools}) == ("a", "b")


def test_why_no_instance_comes_is_said_until_the_next_change() -> None:
    shortage = Shortage()
    found = instances(2, FIRST, SECOND, shortage=shortage)
    shortage.set_types([FIRST, SECOND])
    grown(found, 4)
    assert (counts(found), found.failure) == ((2, 2, 1), NO_CAPACITY)
    shortage.set_types([])
    grown(found, 3)
    assert (counts(found), found.failure) == ((3, 3, 1), None)

    found = instances(1, faults=InstanceFaults(capacity=3))
    grown(found, 5)
    assert (counts(found), found.failure) == ((3, 3, 1), NO_CAPACITY)

    found = instances(1, most_containers=2)
    found.start = Mock(side_effect=RuntimeError("no memory"))
    grown(found, 2)
    assert (counts(found), found.failure) == ((1, 1, 1), "no memory")


def test_a_container_that_is_not_ready_is_waited_for_only_if_asked_to() -> None:
    gate = threading.Event()

    def slow() -> Any:
        gate.wait(20)
        return Container()

    found = instances(1, most_containers=2)
    found.start = slow
    found.scale(2, NOW)
    assert (found.admit_ready(NOW, wait=False), found.serving_count) == (False, 1)
    gate.set()
    assert (found.admit_ready(NOW, wait=True), found.serving_count) == (True, 2)


def test_retaining_keeps_the_count() -> None:
    shortage = Shortage()
    found = instances(1, shortage=shortage)
    shortage.set_types([FIRST])
    found.set_initial_count(3)
    assert counts(found) == (3, 1, 1)

    found = instances(3, most_containers=3)
    found.set_initial_count(1)
    assert counts(found) == (1, 1, 1)


def test_requests_go_to_containers_in_turns_or_to_the_idlest() -> None:
    found = instances(2, most_containers=2)
    picked = [found.pick() for _ in range(4)]
    same = [picked[one] is picked[other] for one, other in ((0, 2), (1, 3), (0, 1))]
    assert same == [True, True, False]

    found = instances(3, most_containers=3, least_outstanding=True)
    for container, busy in zip(found.containers, (2, 0, 1), strict=True):
        container.busy = busy
    assert [found.pick() for _ in range(2)] == [found.containers[1]] * 2


def test_closing_ends_every_container_also_those_that_start() -> None:
    found = instances(2, most_containers=3)
    serving: list[Any] = list(found.containers)
    late: Any = Container()
    found.start = lambda: late
    found.scale(3, NOW)
    found.close()
    found.close()
    assert [one.closed.wait(20) for one in (*serving, late)] == [True] * 3
    assert not found.is_changing
