"""An update that is under way: the new fleet beside the old, stage by stage.

Sources: deployment-guardrails-blue-green*.html of the SageMaker guide; that the wait before
termination is watched as well is in the guide's example event, "Baking for 600 seconds
(TerminationWaitInSeconds)".
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.fleet import Fleet

_LARGEST_BATCH_PERCENT = 50
InAlarm = Callable[[Sequence[str]], list[str]]


@dataclass(frozen=True)
class Stage:
    """`active` of `total` instances of the new fleet take traffic, watched for `bake_seconds`."""

    active: int
    total: int
    bake_seconds: int
    interval: str = "TerminationWaitInSeconds"

    @property
    def share(self) -> float:
        """Share of all requests."""
        return self.active / self.total

    @property
    def message(self) -> str:
        kind = "full" if self.active == self.total else "canary"
        return (
            f"Baking for {self.bake_seconds} seconds ({self.interval}) with traffic enabled on "
            f"{kind} capacity of {self.active} instance(s)."
        )


def reject_deployment(deployment_config: Mapping[str, Any] | None, instances: int) -> None:
    """Raise `SageMakerError` for a policy that SageMaker doesn't accept for so many instances.

    Source: API_TrafficRoutingConfig.html and API_RollingUpdatePolicy.html of SageMaker's reference,
    which state shares of the variant's instances. A batch of one instance is accepted on every endpoint.
    """
    config = deployment_config or {}
    blue_green, rolling = config.get("BlueGreenUpdatePolicy"), config.get("RollingUpdatePolicy")
    if blue_green and rolling:
        raise SageMakerError("Give BlueGreenUpdatePolicy or RollingUpdatePolicy, not both.")
    sizes: list[tuple[str, Mapping[str, Any] | None, int]] = []
    if rolling:
        sizes.append(("MaximumBatchSize", rolling["MaximumBatchSize"], 5))
    if blue_green:
        routing = blue_green["TrafficRoutingConfiguration"]
        if routing["Type"] == "CANARY":
            sizes.append(("CanarySize", routing.get("CanarySize"), 1))
        elif routing["Type"] == "LINEAR":
            sizes.append(("LinearStepSize", routing.get("LinearStepSize"), 10))
    for name, size, least in sizes:
        if size is None:
            raise SageMakerError(f"{name} is required for this type of traffic routing.")
        value, counted = int(size["Value"]), size["Type"] == "INSTANCE_COUNT"
        share = 100 * value / instances if counted else value
        if counted and value == 1:
            continue
        if not least <= share <= _LARGEST_BATCH_PERCENT:
            unit = f"of {instances} instances" if counted else "%"
            raise SageMakerError(
                f"{name} {value} {unit} must be between {least} % and {_LARGEST_BATCH_PERCENT} % of the "
                "variant's instances."
            )


def stages(deployment_config: Mapping[str, Any] | None, instances: int) -> list[Stage]:
    """The last one has all the traffic. Without a policy: at once, unwatched."""
    config = deployment_config or {}
    if rolling := config.get("RollingUpdatePolicy"):
        batch = _instances(rolling["MaximumBatchSize"], instances)
        wait = int(rolling["WaitIntervalInSeconds"])
        steps = [*range(batch, instances, batch), instances]
        return [Stage(step, instances, wait, "WaitIntervalInSeconds") for step in steps]
    policy = config.get("BlueGreenUpdatePolicy")
    if policy is None:
        return [Stage(instances, instances, 0)]
    routing = policy["TrafficRoutingConfiguration"]
    wait = int(routing.get("WaitIntervalInSeconds", 0))
    first: list[int] = []
    if routing["Type"] == "CANARY":
        # The canary of a single instance is all of it, and bakes all the same.
        first = [_instances(routing["CanarySize"], instances)]
    elif routing["Type"] == "LINEAR":
        step = _instances(routing["LinearStepSize"], instances)
        first = list(range(step, instances, step))
    return [
        *(Stage(active, instances, wait, "WaitIntervalInSeconds") for active in first),
        Stage(instances, instances, int(policy.get("TerminationWaitInSeconds", 0))),
    ]


def _instances(size: Mapping[str, Any], total: int) -> int:
    """Capacity is whole instances: 10 % of two is one."""
    value = int(size["Value"])
    count = value if size["Type"] == "INSTANCE_COUNT" else math.ceil(total * value / 100)
    return min(max(count, 1), total)


def longest_seconds(deployment_config: Mapping[str, Any] | None) -> int | None:
    """MaximumExecutionTimeoutInSeconds, after which an update is taken back."""
    config = deployment_config or {}
    policy = config.get("BlueGreenUpdatePolicy") or config.get("RollingUpdatePolicy") or {}
    seconds = policy.get("MaximumExecutionTimeoutInSeconds")
    return None if seconds is None else int(seconds)


def rollback_alarms(deployment_config: Mapping[str, Any] | None) -> list[str]:
    rollback = (deployment_config or {}).get("AutoRollbackConfiguration") or {}
    return [alarm["AlarmName"] for alarm in rollback.get("Alarms", [])]


@dataclass
class EndpointUpdate:
    """Moved on by the clock; knows when it is through, and when it has to go back."""

    fleet: Fleet
    config: Mapping[str, Any]
    deployment_config: Mapping[str, Any] | None
    started: datetime
    stages: list[Stage] = field(init=False)
    stage_started: datetime = field(init=False)
    _at: int = 0

    def __post_init__(self) -> None:
        self.stages = stages(self.deployment_config, self.fleet.instance_count)
        self.stage_started = self.started

    @property
    def stage(self) -> Stage:
        return self.stages[self._at]

    def move_on(self, now: datetime) -> bool:
        """True when every stage is over."""
        while now >= self.stage_started + timedelta(seconds=self.stage.bake_seconds):
            self.stage_started += timedelta(seconds=self.stage.bake_seconds)
            if self._at + 1 == len(self.stages):
                return True
            self._at += 1
        return False

    def trouble(self, now: datetime, in_alarm: InAlarm) -> str | None:
        """Why it has to be taken back. None: nothing is wrong."""
        if raised := in_alarm(rollback_alarms(self.deployment_config)):
            return (
                f"The deployment was rolled back: alarm(s) [{', '.join(raised)}] in the "
                "auto-rollback configuration went into ALARM state."
            )
        longest = longest_seconds(self.deployment_config)
        if longest is not None and now >= self.started + timedelta(seconds=longest):
            return (
                "The deployment was rolled back: it took longer than "
                f"MaximumExecutionTimeoutInSeconds, {longest}."
            )
        return None
