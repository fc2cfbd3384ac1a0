"""A variant's instances by type: where new ones come from, and which go first."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

# SageMaker's first sentence, as its users quote it:
# https://github.com/aws/deep-learning-containers/pull/6673 (2026-11-22)
NO_CAPACITY = (
    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
)


def instance_types(variant: Mapping[str, Any]) -> tuple[str, ...]:
    """Instance types of a variant of CreateEndpointConfig, the preferred one first."""
    pools = sorted(variant.get("InstancePools", []), key=lambda pool: int(pool["Priority"]))
    if pools:
        return tuple(pool["InstanceType"] for pool in pools)
    return (variant["InstanceType"],) if "InstanceType" in variant else ()


class Shortage:
    """The instance types of which an account's region has none left: a fault to inject."""

    def __init__(self) -> None:
        self._types: frozenset[str] = frozenset()

    def set(self, types: Iterable[str]) -> None:
        """Ends the shortage of all other types."""
        self._types = frozenset(types)

    def __contains__(self, instance_type: str) -> bool:
        return instance_type in self._types


class Instances:
    """New instances are of the first type that is to be had; the last type's go first.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html
    (2026-11-22)
    """

    def __init__(self, types: Sequence[str], shortage: Collection[str] | Shortage = ()) -> None:
        """`types` in order of preference; empty for a serverless variant."""
        self.by_type = dict.fromkeys(types or ("",), 0)
        self.desired = 0
        self._shortage = shortage

    @property
    def count(self) -> int:
        return sum(self.by_type.values())

    def scale(self, desired: int) -> bool:
        """Whether there are that many now. If no type is to be had, none is added."""
        self.desired = desired
        for one in reversed(self.by_type):
            self.by_type[one] -= min(self.by_type[one], max(0, self.count - desired))
        free = next((one for one in self.by_type if one not in self._shortage), None)
        if free is not None:
            self.by_type[free] += desired - self.count
        return self.count == desired
