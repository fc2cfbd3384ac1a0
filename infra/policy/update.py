"""Compute how an update replaces a fleet, and list the updates that SageMaker rejects.

Shares in whole instances, instances at the same time, and duration are pure arithmetic from the SageMaker
guide about guardrails, https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails.html
(2026-11-21); docs/decisions/0020 has the assumptions. `servable plan` and the rules change-* of
`servable check --against` use the table of rejected updates, whose sources were read on 2026-11-22.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from infra.catalog.limits import find_maximum, find_minimum
from infra.policy.sizing import count_update_instances

Strategy = Literal["all_at_once", "canary", "linear", "rolling"]

SECONDS_PER_MINUTE = 60
LONGEST = "MaximumExecutionTimeoutInSeconds"
# The longest that SageMaker waits for one start: download and health check, 3600 s each at most.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html (2026-11-21)
LONGEST_START_SECONDS = 7200
# The estimates are cautious already, so a start that takes twice as long has failed. At least half an
# hour is allowed, because capacity may be short and giving up early would undo a good update.
START_SAFETY = 2
LEAST_START_SECONDS = 1800


@dataclass(frozen=True, kw_only=True)
class Update:
    """One update of a fleet of `instances` of one variant."""

    strategy: Strategy
    percent: int
    """Percentage of the first share, of each step or of each batch; 100 for all_at_once."""
    bake_minutes: int
    window_minutes: int
    """Window of the alarms in minutes: the time from a shift of traffic until one can fire."""
    instances: int
    rollback_percent: int = 100
    """Percentage of the old instances that a rollback starts at once; None unless rolling."""

    @property
    def steps(self) -> tuple[int, ...]:
        """Return the instances of the new fleet that take traffic after each shift.

        The last number is all of them. Capacity is whole instances: 10 % of two is one.
        """
        first = min(max(math.ceil(self.instances * self.percent / 100), 1), self.instances)
        if self.strategy == "canary":
            # With a single instance the canary is the whole fleet, and bakes all the same.
            return (first, self.instances)
        return (*range(first, self.instances, first), self.instances)

    @property
    def first_share_percent(self) -> float:
        """Return the percentage of all instances that really take the first traffic."""
        return 100 * self.steps[0] / self.instances

    @property
    def instances_at_once(self) -> int:
        """Return the maximum of instances at once: both fleets, or one with its batches."""
        batches = (self.percent, self.rollback_percent) if self.strategy == "rolling" else None
        return count_update_instances(self.instances, batches=batches)

    @property
    def last_bake_seconds(self) -> int:
        """Return the seconds that the old fleet stays after the last shift.

        Its alarm can still fire in this time. For all_at_once it is the only bake. After steps,
        the new version has been watched already, so the shortest time in which an alarm can fire
        is enough, because both fleets cost money. A rolling update has no old fleet left; it
        waits after its last batch as after the others.
        """
        if self.strategy in ("all_at_once", "rolling"):
            return self.bake_minutes * SECONDS_PER_MINUTE
        return min(self.bake_minutes, self.window_minutes + 1) * SECONDS_PER_MINUTE

    @property
    def bakes_seconds(self) -> int:
        """Return the total seconds of all bakes."""
        before = (len(self.steps) - 1) * self.bake_minutes * SECONDS_PER_MINUTE
        return before + self.last_bake_seconds

    @property
    def start_count(self) -> int:
        """Return how many times instances are started, one group after the other."""
        return len(self.steps) if self.strategy == "rolling" else 1

    def estimate_seconds(self, start_seconds: float | None) -> float | None:
        """Estimate an update's duration without failures; None if a start's time is unknown."""
        if start_seconds is None:
            return None
        return self.bakes_seconds + self.start_count * start_seconds

    def compute_timeout(self, start_seconds: float | None) -> int:
        """Compute SageMaker's rollback timeout: all bakes, and starts that take twice as long."""
        start = LONGEST_START_SECONDS if start_seconds is None else START_SAFETY * start_seconds
        seconds = self.bakes_seconds + self.start_count * max(start, LEAST_START_SECONDS)
        whole_minutes = SECONDS_PER_MINUTE * math.ceil(seconds / SECONDS_PER_MINUTE)
        return min(max(whole_minutes, find_minimum(LONGEST)), find_maximum(LONGEST))


@dataclass(frozen=True, kw_only=True)
class DeployedVariant:
    instance_type: str | None
    """The (preferred) instance type; None for a serverless variant."""
    scales: bool
    """Whether it is a scalable target of Application Auto Scaling."""
    shadow: bool = False
    pools: tuple[str, ...] = ()
    """All instance types in order of preference, if there are several."""

    @property
    def type_summary(self) -> str:
        """Return the instance types as text, in order of preference."""
        return ", else ".join(self.pools) or self.instance_type or "serverless"


Variants = Mapping[str, DeployedVariant]


@dataclass(frozen=True, kw_only=True)
class EndpointState:
    """The properties of an endpoint that determine which updates SageMaker accepts."""

    variants: Variants
    queued: bool
    """Whether it is asynchronous."""
    guarded: bool = False
    """Whether the update to this state has a deployment configuration ([rollout])."""


@dataclass(frozen=True)
class RefusedUpdate:
    """A kind of change that SageMaker rejects. `id` is that of its preflight rule, which has the source."""

    id: str
    problems: Callable[[EndpointState, EndpointState], dict[str, str]]
    """Takes the live state and the next one; returns variant to problem. The key is "" for the whole
    endpoint; the result is empty if the change is not made."""
    way: str
    """The remedy."""
    two_deploys: bool = False
    """Whether a deploy with `scaling.hold` before the change is enough, which `servable plan` prints."""

    def format_remedy(self, name: str) -> str:
        """Return what to do in the environment of this name."""
        return self.way.replace("{name}", name)


_NEXT_TO_IT = (
    "deploy a second environment next to it (`servable init --from {name} --name {name}-next`), move the "
    "callers, then destroy this one (`cdk destroy '{name}/*'`)"
)


def _find_async_removal(old: EndpointState, new: EndpointState) -> dict[str, str]:
    problem = "SageMaker cannot remove asynchronous inference from an endpoint"
    return {"": problem} if old.queued and not new.queued else {}


def _find_serverless_changes(old: EndpointState, new: EndpointState) -> dict[str, str]:
    serverless = [name for name, variant in new.variants.items() if variant.instance_type is None]
    on_instances = any(variant.instance_type for variant in old.variants.values())
    problem = "SageMaker cannot make variant {} serverless: the endpoint runs on instances"
    return {name: problem.format(name) for name in serverless if on_instances}


def _find_renamed_variants(old: EndpointState, new: EndpointState) -> dict[str, str]:
    if not new.guarded or not old.variants:
        return {}
    # The page does not mention shadow variants.
    before = {name for name, variant in old.variants.items() if not variant.shadow}
    after = {name for name, variant in new.variants.items() if not variant.shadow}
    what = [f"{name} is removed" for name in sorted(before - after)]
    what += [f"{name} is new" for name in sorted(after - before)]
    problem = f"[rollout] doesn't allow adding or removing variants: {', '.join(what)}"
    return {"": problem} if what else {}


def _find_scaled_type_changes(old: EndpointState, new: EndpointState) -> dict[str, str]:
    return {
        name: f"variant {name} is scaled: SageMaker cannot change {was.type_summary} to "
        f"{new.variants[name].type_summary} in one update"
        for name, was in old.variants.items()
        if was.scales
        and name in new.variants
        and new.variants[name].type_summary != was.type_summary
        and new.variants[name].instance_type is not None  # serverless: a row of its own
    }


def _find_scaled_removals(old: EndpointState, new: EndpointState) -> dict[str, str]:
    return {
        name: f"variant {name} is scaled: SageMaker cannot remove it in one update"
        for name, was in old.variants.items()
        if was.scales and name not in new.variants
    }


REFUSED_UPDATES = (
    RefusedUpdate("change-async-removed", _find_async_removal, _NEXT_TO_IT),
    RefusedUpdate("change-instances-to-serverless", _find_serverless_changes, _NEXT_TO_IT),
    RefusedUpdate(
        "change-variants-under-rollout",
        _find_renamed_variants,
        "remove [rollout] for this deploy, which then runs all at once without rollback alarms, and put "
        "it back after",
    ),
    RefusedUpdate(
        "change-type-while-scaled",
        _find_scaled_type_changes,
        "first deploy scaling.hold = true with the deployed type, then the new type",
        two_deploys=True,
    ),
    RefusedUpdate(
        "change-variant-removed-while-scaled",
        _find_scaled_removals,
        "first deploy scaling.hold = true, then remove the variant",
        two_deploys=True,
    ),
)


def find_refused_update(rule: str) -> RefusedUpdate:
    """Return the row of a rule. Raise KeyError for an unknown rule."""
    return {update.id: update for update in REFUSED_UPDATES}[rule]
