"""An update in progress: the new fleet next to the old one, stage by stage.

Sources: deployment-guardrails-blue-green*.html of the SageMaker guide; that alarms are also
watched during the wait before termination is in the guide's example event, "Baking for 600
seconds (TerminationWaitInSeconds)".
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.fleet import Fleet

_LARGEST_BATCH_PERCENT = 50
# Type of an update -> the name of the size of its batches, and their least share in percent.
_SIZES = {"ROLLING": ("MaximumBatchSize", 5), "CANARY": ("CanarySize", 1),
          "LINEAR": ("LinearStepSize", 10)}  # fmt: skip
InAlarm = Callable[[Sequence[str]], list[str]]


@dataclass(frozen=True)
class Stage:
    """A stage: `active` of `total` new instances take traffic, watched for `bake_seconds`."""

    active: int
    total: int
    bake_seconds: int
    interval: str = "TerminationWaitInSeconds"

    @property
    def share(self) -> float:
        """Return the share of all requests."""
        return self.active / self.total

    @property
    def message(self) -> str:
        kind = "full" if self.active == self.total else "canary"
        return (
            f"Baking for {self.bake_seconds} seconds ({self.interval}) with traffic enabled on "
            f"{kind} capacity of {self.active} instance(s)."
        )


def check_deployment(deployment_config: Mapping[str, Any] | None, instances: int) -> None:
    """Raise `SageMakerError` for a policy that SageMaker rejects for this number of instances.

    Source: API_TrafficRoutingConfig.html and API_RollingUpdatePolicy.html of SageMaker's
    reference, which state shares of the variant's instances. A batch of one instance is accepted
    on every endpoint.
    """
    config = deployment_config or {}
    blue_green, rolling = config.get("BlueGreenUpdatePolicy"), config.get("RollingUpdatePolicy")
    if blue_green and rolling:
        raise SageMakerError("Pass BlueGreenUpdatePolicy or RollingUpdatePolicy, not both.")
    policy = rolling or (blue_green or {}).get("TrafficRoutingConfiguration", {})
    kind = "ROLLING" if rolling else policy.get("Type")
    if kind not in _SIZES:
        return
    name, least = _SIZES[kind]
    if (size := policy.get(name)) is None:
        raise SageMakerError(f"{name} is required for this type of traffic routing.")
    value, counted = int(size["Value"]), size["Type"] == "INSTANCE_COUNT"
    share = 100 * value / instances if counted else value
    if not (counted and value == 1) and not least <= share <= _LARGEST_BATCH_PERCENT:
        unit = f"of {instances} instances" if counted else "%"
        raise SageMakerError(
            f"{name} {value} {unit} must be between {least} % and {_LARGEST_BATCH_PERCENT} % of the "
            "variant's instances."
        )


def plan_stages(deployment_config: Mapping[str, Any] | None, instances: int) -> list[Stage]:
    """Return the stages; the last one has all traffic. Without a policy: one, unwatched."""
    config = deployment_config or {}
    if rolling := config.get("RollingUpdatePolicy"):
        batch = _count_instances(rolling["MaximumBatchSize"], instances)
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
        first = [_count_instances(routing["CanarySize"], instances)]
    elif routing["Type"] == "LINEAR":
        step = _count_instances(routing["LinearStepSize"], instances)
        first = list(range(step, instances, step))
    return [
        *(Stage(active, instances, wait, "WaitIntervalInSeconds") for active in first),
        Stage(instances, instances, int(policy.get("TerminationWaitInSeconds", 0))),
    ]


def _count_instances(size: Mapping[str, Any], total: int) -> int:
    """Return a size as a number of whole instances: 10 % of two is one."""
    value = int(size["Value"])
    count = value if size["Type"] == "INSTANCE_COUNT" else math.ceil(total * value / 100)
    return min(max(count, 1), total)


def read_timeout_seconds(deployment_config: Mapping[str, Any] | None) -> int | None:
    """Return MaximumExecutionTimeoutInSeconds, after which an update is rolled back."""
    config = deployment_config or {}
    policy = config.get("BlueGreenUpdatePolicy") or config.get("RollingUpdatePolicy") or {}
    seconds = policy.get("MaximumExecutionTimeoutInSeconds")
    return None if seconds is None else int(seconds)


def list_rollback_alarms(deployment_config: Mapping[str, Any] | None) -> list[str]:
    rollback = (deployment_config or {}).get("AutoRollbackConfiguration") or {}
    return [alarm["AlarmName"] for alarm in rollback.get("Alarms", [])]


@dataclass
class EndpointUpdate:
    """An update that the clock advances, to its end or to a rollback."""

    fleet: Fleet
    config: Mapping[str, Any]
    deployment_config: Mapping[str, Any] | None
    started: datetime
    stages: list[Stage] = field(init=False)
    stage_started: datetime = field(init=False)
    _at: int = 0

    def __post_init__(self) -> None:
        self.stages = plan_stages(self.deployment_config, self.fleet.instance_count)
        self.stage_started = self.started

    @property
    def stage(self) -> Stage:
        return self.stages[self._at]

    def advance(self, now: datetime) -> bool:
        """Advance to the stage at `now`. Return True when every stage is over."""
        while now >= self.stage_started + timedelta(seconds=self.stage.bake_seconds):
            self.stage_started += timedelta(seconds=self.stage.bake_seconds)
            if self._at + 1 == len(self.stages):
                return True
            self._at += 1
        return False

    def explain_rollback(self, now: datetime, in_alarm: InAlarm) -> str | None:
        """Return why the update has to be rolled back, or None."""
        if raised := in_alarm(list_rollback_alarms(self.deployment_config)):
            return (
                f"The deployment was rolled back: alarm(s) [{', '.join(raised)}] in the "
                "auto-rollback configuration went into ALARM state."
            )
        longest = read_timeout_seconds(self.deployment_config)
        if longest is not None and now >= self.started + timedelta(seconds=longest):
            return (
                "The deployment was rolled back: it took longer than "
                f"MaximumExecutionTimeoutInSeconds, {longest}."
            )
        return None
