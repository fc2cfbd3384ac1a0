"""Scalable targets, policies and scheduled actions from their properties; and scaling activities.

Properties are CloudFormation's or the API's. Activities report what was done or left out, and
why, with AWS's texts. Codes, status codes and the texts for bounds and schedules:
https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-scaling-activities.html,
https://docs.aws.amazon.com/autoscaling/application/userguide/describe-scheduled-scaling.html (2026-11-22).
Texts about instance counts, waiting and failures: as seen in SageMaker's activities.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Literal, TypeVar

# https://docs.aws.amazon.com/autoscaling/application/userguide/target-tracking-scaling-policy-overview.html
# (2026-11-22): what SageMaker's have where the policy names none, tracking and steps alike.
DEFAULT_COOLDOWN_SECONDS = 300
COPIES = "sagemaker:inference-component:DesiredCopyCount"
# Names of the dimensions in activities: the first as seen, the others by its pattern.
NOUNS = {
    "sagemaker:variant:DesiredInstanceCount": "desired instance count",
    "sagemaker:variant:DesiredProvisionedConcurrency": "desired provisioned concurrency",
    COPIES: "desired copy count",
}
Properties = Mapping[str, Any]
Aggregation = Literal["Average", "Minimum", "Maximum"]
_Number = TypeVar("_Number", int, float)


class ScalingPropertyError(ValueError):
    """The error of a property that AWS rejects, or that is not emulated. `str()` names it."""


@dataclass(frozen=True)
class SuspendedState:
    """The kinds of scaling that are suspended for a target: SuspendedState."""

    scaling_in: bool = False
    scaling_out: bool = False
    scheduled: bool = False

    @classmethod
    def from_properties(cls, properties: Properties | None) -> "SuspendedState":
        names = ("DynamicScalingIn", "DynamicScalingOut", "ScheduledScaling")
        return cls(*(bool((properties or {}).get(f"{name}Suspended")) for name in names))


@dataclass(frozen=True)
class ScaledTarget:
    """A resource that Application Auto Scaling scales, with its minimum and maximum capacity."""

    resource_id: str
    dimension: str
    minimum: int
    maximum: int
    suspended: SuspendedState = SuspendedState()
    service: str = "sagemaker"

    @classmethod
    def from_properties(cls, properties: Properties) -> "ScaledTarget":
        """Create the target from its properties. Raises `ScalingPropertyError`."""
        target = cls(
            resource_id=str(properties["ResourceId"]),
            dimension=str(properties["ScalableDimension"]),
            minimum=int(properties["MinCapacity"]),
            maximum=int(properties["MaxCapacity"]),
            suspended=SuspendedState.from_properties(properties.get("SuspendedState")),
            service=str(properties.get("ServiceNamespace", "sagemaker")),
        )
        if target.minimum > target.maximum:
            raise ScalingPropertyError("Maximum capacity cannot be less than minimum capacity")
        return target

    @property
    def noun(self) -> str:
        return NOUNS.get(self.dimension, self.dimension.split(":")[-1])

    def replace_bounds(self, minimum: int | None, maximum: int | None) -> "ScaledTarget":
        """Return the target with other bounds; None keeps a bound."""
        return replace(
            self,
            minimum=self.minimum if minimum is None else minimum,
            maximum=self.maximum if maximum is None else maximum,
        )

    def clamp(self, capacity: int) -> int:
        return min(max(capacity, self.minimum), self.maximum)


@dataclass(frozen=True)
class TargetTracking:
    """A target tracking policy. `request` is its configuration, with the metric of its alarms."""

    name: str
    target_value: float
    request: Properties
    out_cooldown_seconds: int
    in_cooldown_seconds: int
    scales_in: bool


@dataclass(frozen=True)
class StepAdjustment:
    """A step from `lower` to `upper`, both relative to the alarm's threshold; None: no limit."""

    lower: float | None
    upper: float | None
    adjustment: int


@dataclass(frozen=True)
class StepScaling:
    """A step scaling policy."""

    name: str
    kind: Literal["ChangeInCapacity", "ExactCapacity", "PercentChangeInCapacity"]
    steps: tuple[StepAdjustment, ...]
    out_cooldown_seconds: int
    in_cooldown_seconds: int
    aggregation: Aggregation
    least_magnitude: int


ScalingPolicy = TargetTracking | StepScaling


def parse_scaling_policy(properties: Properties) -> ScalingPolicy:
    """Return the policy of CloudFormation's or the API's properties. Raises `ScalingPropertyError`."""
    name = str(properties["PolicyName"])
    tracked = properties.get("TargetTrackingScalingPolicyConfiguration")
    if tracked is not None:
        return TargetTracking(
            name=name,
            target_value=float(tracked["TargetValue"]),
            request=tracked,
            out_cooldown_seconds=_read_seconds(tracked, "ScaleOutCooldown"),
            in_cooldown_seconds=_read_seconds(tracked, "ScaleInCooldown"),
            scales_in=not tracked.get("DisableScaleIn", False),
        )
    configuration = properties.get("StepScalingPolicyConfiguration")
    if configuration is None:
        raise ScalingPropertyError(
            f"Policy {name}: only TargetTrackingScaling and StepScaling are emulated, each with a "
            "configuration."
        )
    steps = tuple(
        StepAdjustment(
            _convert_optional(float, step.get("MetricIntervalLowerBound")),
            _convert_optional(float, step.get("MetricIntervalUpperBound")),
            int(step["ScalingAdjustment"]),
        )
        for step in configuration.get("StepAdjustments", ())
    )
    _check_steps(steps, exact=configuration.get("AdjustmentType") == "ExactCapacity")
    return StepScaling(
        name=name,
        kind=configuration["AdjustmentType"],
        steps=steps,
        out_cooldown_seconds=_read_seconds(configuration, "Cooldown"),
        in_cooldown_seconds=_read_seconds(configuration, "Cooldown"),
        aggregation=configuration.get("MetricAggregationType") or "Average",
        least_magnitude=int(configuration.get("MinAdjustmentMagnitude") or 0),
    )


def _read_seconds(configuration: Properties, key: str) -> int:
    seconds = configuration.get(key)
    return DEFAULT_COOLDOWN_SECONDS if seconds is None else int(seconds)


def _convert_optional(kind: type[_Number], value: Any) -> _Number | None:
    return None if value is None else kind(value)


def _check_steps(steps: Sequence[StepAdjustment], *, exact: bool) -> None:
    """Raise `ScalingPropertyError` for invalid steps, such as a gap or an overlap between them.

    The outermost steps must have no limit on their side of the threshold. The messages are ours.
    Source (2026-11-22):
    https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html
    """
    if not steps:
        raise ScalingPropertyError("StepAdjustments: at least one is required.")
    if exact and any(step.adjustment < 0 for step in steps):
        raise ScalingPropertyError("ScalingAdjustment must be at least 0 with ExactCapacity.")
    if any(step.lower is None and step.upper is None for step in steps):
        raise ScalingPropertyError("StepAdjustments: a step's bounds cannot both be null.")
    ordered = sorted(steps, key=lambda step: -math.inf if step.lower is None else step.lower)
    for step, after in pairwise(ordered):
        if step.upper is None or after.lower is None or step.upper != after.lower:
            raise ScalingPropertyError(
                f"StepAdjustments: {step.upper} and {after.lower} leave a gap or overlap; each step must "
                "begin where the one before it ends."
            )
    first, last = ordered[0], ordered[-1]
    if (first.lower is not None and first.lower < 0) or (last.upper is not None and last.upper > 0):
        raise ScalingPropertyError(
            "StepAdjustments: steps below the threshold need one whose lower bound is null, "
            "steps above it one whose upper bound is null."
        )


@dataclass(frozen=True)
class ScheduledAction:
    """A scheduled change of the bounds. `start` and `end` are naive UTC."""

    name: str
    schedule: str
    minimum: int | None
    maximum: int | None
    time_zone: str | None = None
    start: datetime | None = None
    end: datetime | None = None

    @classmethod
    def from_properties(cls, properties: Properties) -> "ScheduledAction":
        action = properties.get("ScalableTargetAction") or {}
        return cls(
            name=str(properties["ScheduledActionName"]),
            schedule=str(properties["Schedule"]),
            minimum=_convert_optional(int, action.get("MinCapacity")),
            maximum=_convert_optional(int, action.get("MaxCapacity")),
            time_zone=properties.get("Timezone"),
            start=_convert_to_utc(properties.get("StartTime")),
            end=_convert_to_utc(properties.get("EndTime")),
        )


def _convert_to_utc(value: Any) -> datetime | None:
    """Convert the API's seconds or datetime, or a template's ISO 8601, to naive UTC."""
    if value is None:
        return None
    if isinstance(value, int | float):
        value = datetime.fromtimestamp(value, UTC)
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


StatusCode = Literal["Pending", "InProgress", "Successful", "Overridden", "Failed"]
ReasonCode = Literal[
    "AutoScalingAnticipatedFlapping",
    "TargetServicePutResourceAsUnscalable",
    "AlreadyAtMaxCapacity",
    "AlreadyAtMinCapacity",
    "AlreadyAtDesiredCapacity",
]


@dataclass
class ScalingActivity:
    """An entry of DescribeScalingActivities. `number` counts up within its target."""

    target: ScaledTarget
    number: int
    cause: str
    description: str
    started: datetime
    status: StatusCode = "InProgress"
    message: str | None = None
    ended: datetime | None = None
    not_scaled: Mapping[str, Any] | None = None
    desired: int | None = None
    """The capacity that it sets; None for new bounds, and where nothing was scaled."""

    def describe(self, activity_id: str) -> dict[str, Any]:
        """Return the activity in the format of DescribeScalingActivities."""
        shown = {
            "ActivityId": activity_id,
            "ServiceNamespace": self.target.service,
            "ResourceId": self.target.resource_id,
            "ScalableDimension": self.target.dimension,
            "Description": self.description,
            "Cause": self.cause,
            "StartTime": self.started,
            "EndTime": self.ended,
            "StatusCode": self.status,
            "StatusMessage": self.message,
            "NotScaledReasons": [dict(self.not_scaled)] if self.not_scaled else None,
        }
        return {name: value for name, value in shown.items() if value is not None}

    def succeed(self, at: datetime) -> None:
        self.status, self.ended = "Successful", at
        self.message = (
            f"Successfully set {self.target.noun} to {self.desired}. Change successfully "
            f"fulfilled by {self.target.service}."
        )

    def mark_overridden(self, at: datetime) -> None:
        """Mark the activity as overridden by a newer one."""
        self.status, self.ended = "Overridden", at

    def fail(self, at: datetime, reason: str) -> None:
        self.status, self.ended = "Failed", at
        self.message = f"Failed to set {self.target.noun} to {self.desired}. Reason: {reason}"


def format_cause(alarm: str, policy: str) -> str:
    """Return the cause of an activity that a policy starts."""
    return f"monitor alarm {alarm} in state ALARM triggered policy {policy}"
