"""Copies of inference components on the instances of a variant, and the instances that they need.

Managed instance scaling adds an instance where no copy finds room, and removes one that has been empty for
10 minutes. Sources: API_ComputeResourceRequirements of botocore's model;
https://aws.amazon.com/blogs/machine-learning/unlock-cost-savings-with-the-new-scale-down-to-zero-feature-in-amazon-sagemaker-inference/
(2024-12-03: 10 minutes). Chosen: all of an instance is room, though less than its memory was seen to be
(https://github.com/huggingface/skills/pull/215, 2026-07); the instance with the fewest copies is next.
"""

import functools
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import moto

from servable_local.aws.sagemaker.instances import VariantInstances
from servable_scaling.rehearsal.scenario import EMPTY_MINUTES

# The words of the first are SageMaker's, as huggingface/skills#215 quotes them (2026-07).
NO_ROOM = (
    "There is not enough hardware resources on the instances for this endpoint to create a copy of the "
    "inference component."
)
# vCPUs, MiB, accelerators.
Resources = tuple[float, float, float]
_UNKNOWN: Resources = (float("inf"),) * 3


@functools.cache
def _ec2_types() -> Mapping[str, Any]:
    """EC2's DescribeInstanceTypes, as moto carries it."""
    path = Path(moto.__file__).parent / "ec2" / "resources" / "instance_types.json.gz"
    types: Mapping[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return types


def room_of(instance_type: str) -> Resources:
    """Room on one instance; without bound for a type that EC2 does not have."""
    kind = _ec2_types().get(instance_type.removeprefix("ml."))
    if kind is None:
        return _UNKNOWN
    gpus = (kind.get("GpuInfo") or {}).get("Gpus", [])
    accelerators = sum(gpu["Count"] for gpu in gpus)
    return kind["VCpuInfo"]["DefaultVCpus"], kind["MemoryInfo"]["SizeInMiB"], accelerators


def required(specification: Mapping[str, Any]) -> Resources:
    """Room that one copy asks for by its ComputeResourceRequirements."""
    asked = specification.get("ComputeResourceRequirements", {})
    return (
        float(asked.get("NumberOfCpuCoresRequired", 0)),
        float(asked.get("MinMemoryRequiredInMb", 0)),
        float(asked.get("NumberOfAcceleratorDevicesRequired", 0)),
    )


@dataclass(eq=False)
class _Instance:
    """One instance, and what each copy on it takes: (component's name, resources)."""

    copies: list[tuple[str, Resources]] = field(default_factory=list)
    empty_since: datetime | None = None

    def has_room(self, room: Resources, asked: Resources) -> bool:
        taken = [sum(copy[1][index] for copy in self.copies) for index in range(len(asked))]
        return all(t + a <= r for t, a, r in zip(taken, asked, room, strict=True))


class CopyPlacement:
    """Not for several threads at once: the endpoint's lock holds it."""

    def __init__(self, instances: VariantInstances, scaling: Mapping[str, Any]) -> None:
        """`scaling`: the variant's ManagedInstanceScaling."""
        self._instances = instances
        self._room = room_of(instances.types[0]) if instances.types else _UNKNOWN
        self._managed = scaling.get("Status") == "ENABLED"
        self._least = int(scaling.get("MinInstanceCount", 1))
        self._most = int(scaling.get("MaxInstanceCount", 1))
        self._all: list[_Instance] = []

    def put(self, name: str, asked: Resources, copies: int, now: datetime) -> int:
        """Give a component as many copies as find room, at most `copies`; how many it has then.

        Managed scaling starts an instance for those that find none.
        """
        self._follow(now)
        own = [(each, copy) for each in self._all for copy in each.copies if copy[0] == name]
        for instance, copy in own[copies:]:
            instance.copies.remove(copy)
        placed = min(len(own), copies)
        while placed < copies:
            free = [each for each in self._all if each.has_room(self._room, asked)]
            if free:
                min(free, key=lambda each: len(each.copies)).copies.append((name, asked))
                placed += 1
            elif not self._grow(asked, now):
                break
        return placed

    def refusal(self) -> str | None:
        """Why a copy without room gets none; None while an instance starts that may take it."""
        return None if self._instances.changing else self._instances.failure or NO_ROOM

    def end_empty(self, now: datetime) -> None:
        """End instances that have been empty for 10 minutes, down to the minimum."""
        self._follow(now)
        for instance in list(self._all):
            if instance.copies:
                instance.empty_since = None
                continue
            since = instance.empty_since = instance.empty_since or now
            idle = now - since >= timedelta(minutes=EMPTY_MINUTES)
            if self._managed and idle and self._instances.serving > self._least:
                self._all.remove(instance)
                self._instances.scale(self._instances.desired - 1, now)

    def _grow(self, asked: Resources, now: datetime) -> bool:
        """Start an instance, if one would have room; True if it is there at once."""
        count = self._instances
        fits = _Instance().has_room(self._room, asked)
        if not (fits and self._managed and count.desired < self._most) or count.changing:
            return False
        count.scale(count.desired + 1, now)
        count.tick(now, wait=False)
        before = len(self._all)
        self._follow(now)
        return len(self._all) > before

    def _follow(self, now: datetime) -> None:
        """As many instances as serve: the variant's count may have been changed by its own operation."""
        self._all += [_Instance() for _ in range(self._instances.serving - len(self._all))]
        del self._all[self._instances.serving :]
