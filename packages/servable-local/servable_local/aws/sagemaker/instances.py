"""The instances of one variant, the container of each, and the component copies on them.

An instance beyond `most_containers` is counted, starts, and ends, and has no container of its
own: the existing ones represent it. The first container also stays without instances, except with
`least_containers` 0.

Managed instance scaling adds an instance if a copy finds no room, and removes one that has been
empty for 10 minutes. Sources: API_ComputeResourceRequirements of botocore's model;
https://aws.amazon.com/blogs/machine-learning/unlock-cost-savings-with-the-new-scale-down-to-zero-feature-in-amazon-sagemaker-inference/
(2024-12-03: 10 minutes). Our choice: all of an instance is room, though less than its memory was
observed (https://github.com/huggingface/skills/pull/215, 2026-07); the instance with the fewest
copies is next.
"""

import functools
import gzip
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import moto

from servable_local.aws.sagemaker.container import Container
from servable_scaling.rehearsal.scenario import EMPTY_MINUTES

# SageMaker's message, as huggingface/skills#215 quotes them (2026-07).
NO_ROOM = (
    "There is not enough hardware resources on the instances for this endpoint to create a copy of the "
    "inference component."
)
# vCPUs, MiB, accelerators.
Resources = tuple[float, float, float]
_UNKNOWN: Resources = (float("inf"),) * 3
_DRAIN_SECONDS = 60.0
_DRAIN_LOOK_SECONDS = 0.02
# SageMaker's first sentence, as its users quote it:
# https://github.com/aws/deep-learning-containers/pull/6673 (2026-11-22)
NO_CAPACITY = (
    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
)


def list_instance_types(variant: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the instance types of a CreateEndpointConfig variant, the preferred one first."""
    pools = sorted(variant.get("InstancePools", []), key=lambda pool: int(pool["Priority"]))
    if pools:
        return tuple(pool["InstanceType"] for pool in pools)
    return (variant["InstanceType"],) if "InstanceType" in variant else ()


class Shortage:
    """The instance types that are unavailable in an account's Region: a fault to inject."""

    def __init__(self) -> None:
        self._types: frozenset[str] = frozenset()

    def set_types(self, types: Iterable[str]) -> None:
        """Set the unavailable types; the shortage of all other types ends."""
        self._types = frozenset(types)

    def find_available(self, types: Iterable[str]) -> str | None:
        """Return the first of `types` that is available, or None."""
        return next((kind for kind in types if kind not in self._types), None)


@dataclass
class InstanceFaults:
    """Fault injection for an endpoint's instances."""

    start_seconds: float = 0.0
    """Time on the clock until a new instance serves; at least until its container answers."""
    capacity: int | None = None
    """The most that can be had; the others fail when they should be ready."""


@dataclass(eq=False)
class _NewInstance:
    ready: datetime
    container: "Future[Container] | None"
    instance_type: str | None
    """None: there is no capacity for it."""


@dataclass(eq=False)
class VariantInstances:
    """The counts and containers of a variant. Hold the endpoint's lock for all except `pick`.

    New instances are of the first available type; those of the last type end first. Source:
    https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html
    (2026-11-22)
    """

    containers: list[Container]
    desired: int
    start: Callable[[], Container]
    types: tuple[str, ...] = ()
    """Instance types in order of preference; empty for a serverless variant."""
    shortage: Shortage = field(default_factory=Shortage)
    most_containers: int = 1
    least_containers: int = 1
    least_outstanding: bool = False
    faults: InstanceFaults = field(default_factory=InstanceFaults)
    failure: str | None = None
    """Why the last change of the count was not fulfilled; until the next change."""
    by_type: dict[str, int] = field(init=False)
    """Instances that serve, by type."""
    _starting: list[_NewInstance] = field(default_factory=list)
    _turn: int = 0

    def __post_init__(self) -> None:
        self.by_type = dict.fromkeys(self.types or ("",), 0)

    @property
    def serving_count(self) -> int:
        return sum(self.by_type.values())

    @property
    def is_changing(self) -> bool:
        return bool(self._starting)

    def pick(self) -> Container:
        """Choose a container by the routing strategy. RANDOM takes turns: equal shares."""
        containers = list(self.containers)
        if self.least_outstanding:
            return min(containers, key=lambda container: container.busy)
        self._turn += 1
        return containers[self._turn % len(containers)]

    def scale(self, desired: int, now: datetime) -> None:
        """Start or end instances, and return at once."""
        self.failure = None
        more = desired - self.serving_count - len(self._starting)
        self.desired = desired
        for _ in range(more):
            number = self.serving_count + len(self._starting) + 1
            kind = self.shortage.find_available(self.by_type)
            if self.faults.capacity is not None and number > self.faults.capacity:
                kind = None
            own = len(self.containers) < number <= self.most_containers and kind is not None
            ready = now + timedelta(seconds=self.faults.start_seconds)
            container = _launch_in_background(self.start) if own else None
            self._starting.append(_NewInstance(ready, container, kind))
        for _ in range(-more):
            if self._starting:
                _discard(self._starting.pop())
            else:
                self._remove_one()
        self._end_surplus()

    def set_initial_count(self, desired: int) -> None:
        """Set the initial count, as an update takes it over, and wait for the containers.

        If no type is available, no instance is added.
        """
        self.desired = desired
        while self.serving_count > desired:
            self._remove_one()
        kind = self.shortage.find_available(self.by_type)
        if kind is not None:
            self.by_type[kind] += desired - self.serving_count
        while len(self.containers) < min(self.serving_count, self.most_containers):
            self.containers.append(self.start())
        self._end_surplus()

    def admit_ready(self, now: datetime, *, wait: bool) -> bool:
        """Admit ready instances. Return True if that ended the last start, successful or not.

        `wait`: wait for a container that should be ready but isn't, on a clock that stands still.
        """
        if not self._starting:
            return False
        for new in list(self._starting):
            if new.ready > now or (new.container and not wait and not new.container.done()):
                continue
            self._starting.remove(new)
            if new.instance_type is None:
                self.failure = NO_CAPACITY
                continue
            try:
                if new.container is not None:
                    self.containers.append(new.container.result())
                self.by_type[new.instance_type] += 1
            except Exception as error:
                self.failure = str(error) or type(error).__name__
        if self._starting:
            return False
        if self.failure is not None:
            self.desired = self.serving_count
        return True

    def _remove_one(self) -> None:
        last = next(kind for kind in reversed(self.by_type) if self.by_type[kind])
        self.by_type[last] -= 1

    def _end_surplus(self) -> None:
        """End surplus containers, which get no more requests, after their last response."""
        wanted = min(self.serving_count, self.most_containers)
        while len(self.containers) > max(self.least_containers, wanted):
            surplus = (self.containers.pop(),)
            threading.Thread(target=_drain_and_close, args=surplus, daemon=True).start()

    def close(self) -> None:
        """End every container. Idempotent."""
        for new in self._starting:
            _discard(new)
        self._starting.clear()
        for container in self.containers:
            container.close()


def _launch_in_background(start: Callable[[], Container]) -> "Future[Container]":
    future: Future[Container] = Future()

    def run() -> None:
        try:
            future.set_result(start())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="start an instance", daemon=True).start()
    return future


def _discard(new: _NewInstance) -> None:
    def close(start: "Future[Container]") -> None:
        if start.exception() is None:
            start.result().close()

    if new.container is not None:
        new.container.add_done_callback(close)


def _drain_and_close(container: Container) -> None:
    deadline = time.monotonic() + _DRAIN_SECONDS
    while container.busy and time.monotonic() < deadline:
        time.sleep(_DRAIN_LOOK_SECONDS)
    container.close()


@functools.cache
def _load_ec2_types() -> Mapping[str, Any]:
    """Return EC2's DescribeInstanceTypes from moto's data."""
    path = Path(moto.__file__).parent / "ec2" / "resources" / "instance_types.json.gz"
    types: Mapping[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return types


def find_resources(instance_type: str) -> Resources:
    """Return the resources of one instance; unlimited for a type that EC2 doesn't have."""
    kind = _load_ec2_types().get(instance_type.removeprefix("ml."))
    if kind is None:
        return _UNKNOWN
    gpus = (kind.get("GpuInfo") or {}).get("Gpus", [])
    accelerators = sum(gpu["Count"] for gpu in gpus)
    return kind["VCpuInfo"]["DefaultVCpus"], kind["MemoryInfo"]["SizeInMiB"], accelerators


def read_requirements(specification: Mapping[str, Any]) -> Resources:
    """Return the resources that one copy requires by its ComputeResourceRequirements."""
    asked = specification.get("ComputeResourceRequirements", {})
    return (
        float(asked.get("NumberOfCpuCoresRequired", 0)),
        float(asked.get("MinMemoryRequiredInMb", 0)),
        float(asked.get("NumberOfAcceleratorDevicesRequired", 0)),
    )


@dataclass(eq=False)
class _Instance:
    """An instance, with the copies on it: (component's name, resources)."""

    copies: list[tuple[str, Resources]] = field(default_factory=list)
    empty_since: datetime | None = None

    def has_room(self, room: Resources, asked: Resources) -> bool:
        taken = [sum(copy[1][index] for copy in self.copies) for index in range(len(asked))]
        return all(t + a <= r for t, a, r in zip(taken, asked, room, strict=True))


class CopyPlacement:
    """The copies on a variant's instances. Not thread-safe: hold the endpoint's lock."""

    def __init__(self, instances: VariantInstances, scaling: Mapping[str, Any]) -> None:
        """Initialize without copies. `scaling`: the variant's ManagedInstanceScaling."""
        self._instances = instances
        self._room = find_resources(instances.types[0]) if instances.types else _UNKNOWN
        self._managed = scaling.get("Status") == "ENABLED"
        self._least = int(scaling.get("MinInstanceCount", 1))
        self._most = int(scaling.get("MaxInstanceCount", 1))
        self._all: list[_Instance] = []

    def place_copies(self, name: str, asked: Resources, copies: int, now: datetime) -> int:
        """Place at most `copies` copies of a component where there is room. Return how many.

        Managed scaling starts an instance for those without room.
        """
        self._sync_instances(now)
        own = [(each, copy) for each in self._all for copy in each.copies if copy[0] == name]
        for instance, copy in own[copies:]:
            instance.copies.remove(copy)
        placed = min(len(own), copies)
        while placed < copies:
            free = [each for each in self._all if each.has_room(self._room, asked)]
            if free:
                min(free, key=lambda each: len(each.copies)).copies.append((name, asked))
                placed += 1
            elif not self._add_instance(asked, now):
                break
        return placed

    def explain_no_room(self) -> str | None:
        """Return why a copy has no room; None while an instance starts that may take it."""
        return None if self._instances.is_changing else self._instances.failure or NO_ROOM

    def end_empty(self, now: datetime) -> None:
        """End instances that have been empty for 10 minutes, down to the minimum."""
        self._sync_instances(now)
        for instance in list(self._all):
            if instance.copies:
                instance.empty_since = None
                continue
            since = instance.empty_since = instance.empty_since or now
            idle = now - since >= timedelta(minutes=EMPTY_MINUTES)
            if self._managed and idle and self._instances.serving_count > self._least:
                self._all.remove(instance)
                self._instances.scale(self._instances.desired - 1, now)

    def _add_instance(self, asked: Resources, now: datetime) -> bool:
        """Start an instance if it would have room. Return True if it serves at once."""
        count = self._instances
        fits = _Instance().has_room(self._room, asked)
        if not (fits and self._managed and count.desired < self._most) or count.is_changing:
            return False
        count.scale(count.desired + 1, now)
        count.admit_ready(now, wait=False)
        before = len(self._all)
        self._sync_instances(now)
        return len(self._all) > before

    def _sync_instances(self, now: datetime) -> None:
        """Match the number of serving instances, which the variant's own operation can change."""
        self._all += [_Instance() for _ in range(self._instances.serving_count - len(self._all))]
        del self._all[self._instances.serving_count :]
