"""Scaling activities: what was done or left, and why, in the words of AWS.

Codes, status codes and the words for bounds and schedules:
https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-scaling-activities.html,
https://docs.aws.amazon.com/autoscaling/application/userguide/describe-scheduled-scaling.html (2026-11-22).
Words about instance counts, of waiting and of failures: as seen in SageMaker's activities.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from servable_scaling.scalable_target import ScaledTarget

StatusCode = Literal["Pending", "InProgress", "Successful", "Overridden", "Unfulfilled", "Failed"]
ReasonCode = Literal[
    "AutoScalingAnticipatedFlapping",
    "TargetServicePutResourceAsUnscalable",
    "AlreadyAtMaxCapacity",
    "AlreadyAtMinCapacity",
    "AlreadyAtDesiredCapacity",
]


@dataclass
class ScalingActivity:
    """One entry of DescribeScalingActivities. `number` counts up within its target."""

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
        """As DescribeScalingActivities has it."""
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

    def override(self, at: datetime) -> None:
        """A newer one takes its place."""
        self.status, self.ended = "Overridden", at

    def fail(self, at: datetime, reason: str, status: StatusCode = "Failed") -> None:
        self.status, self.ended = status, at
        self.message = f"Failed to set {self.target.noun} to {self.desired}. Reason: {reason}"


def triggered(alarm: str, policy: str) -> str:
    """Cause of what a policy does."""
    return f"monitor alarm {alarm} in state ALARM triggered policy {policy}"


def setting(
    target: ScaledTarget, number: int, cause: str, desired: int, at: datetime
) -> ScalingActivity:
    """The capacity is being changed."""
    return ScalingActivity(
        target,
        number,
        cause,
        f"Setting {target.noun} to {desired}.",
        at,
        message=f"Successfully set {target.noun} to {desired}. Waiting for change to be "
        f"fulfilled by {target.service}.",
        desired=desired,
    )


def bounds_set(target: ScaledTarget, number: int, action: str, at: datetime) -> ScalingActivity:
    """A scheduled action has set the bounds that `target` has now."""
    bounds = f"min capacity to {target.minimum} and max capacity to {target.maximum}"
    return ScalingActivity(
        target,
        number,
        f"scheduled action name {action} was triggered",
        f"Setting {bounds}",
        at,
        "Successful",
        f"Successfully set {bounds}",
    )


def unscaled(
    target: ScaledTarget, number: int, cause: str, code: ReasonCode, capacity: int, at: datetime
) -> ScalingActivity:
    """Activity that did not scale, with its reason."""
    bounds = {
        "AlreadyAtMaxCapacity": {"MaxCapacity": target.maximum},
        "AlreadyAtMinCapacity": {"MinCapacity": target.minimum},
        "AlreadyAtDesiredCapacity": {"CurrentCapacity": capacity},
    }
    return ScalingActivity(
        target,
        number,
        cause,
        "Attempting to scale due to alarm triggered",
        at,
        "Failed",
        not_scaled={"Code": code, **bounds.get(code, {})},
    )
