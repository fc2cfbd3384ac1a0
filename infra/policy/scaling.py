"""Converts measurements to the targets and cooldowns of Application Auto Scaling."""

import math
from dataclasses import dataclass

# Application Auto Scaling's default cooldown for SageMaker (2026-11-21).
# https://docs.aws.amazon.com/autoscaling/application/APIReference/API_TargetTrackingScalingPolicyConfiguration.html
DEFAULT_COOLDOWN_SECONDS = 300
ROUNDED_TO_SECONDS = 30
# Steps have the evaluation periods of target tracking: quick to add, slow to remove (2026-11-21).
# https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking.html
STEP_MINUTES_ABOVE, STEP_MINUTES_BELOW = 3, 15


def invocations_per_instance_per_minute(
    *, max_rps_per_instance: float, safety_factor: float
) -> float:
    """The target of SageMakerVariantInvocationsPerInstance, per minute.

    Source: target = maximum requests per second x safety factor x 60,
    https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-loadtest.html (2026-11-20)
    """
    # Rounded: a target of 1000 per minute is 16.666666666666668 per second.
    return round(max_rps_per_instance * safety_factor * 60, 9)


@dataclass(frozen=True, kw_only=True)
class Cooldowns:
    """Seconds to wait after a change before the next one in the same direction."""

    out_seconds: int
    in_seconds: int
    out_reason: str
    in_reason: str


def cooldowns(
    *, out_seconds: int | None, in_seconds: int | None, start_seconds: float | None
) -> Cooldowns:
    """The cooldowns of the file, or by default from the time that a new instance needs to answer.

    `start_seconds` is None if that time is unknown.
    """
    if out_seconds is not None:
        out, why = out_seconds, "from the file"
    elif start_seconds is None:
        out = DEFAULT_COOLDOWN_SECONDS
        why = "Application Auto Scaling's default, because the time of a start is not known"
    else:
        out = ROUNDED_TO_SECONDS * math.ceil(start_seconds / ROUNDED_TO_SECONDS)
        why = f"a new instance answers after about {start_seconds:.0f} s, and relieves others only then"
    back = 2 * out if in_seconds is None else in_seconds
    return Cooldowns(
        out_seconds=out,
        in_seconds=back,
        out_reason=why,
        in_reason="twice the scale-out cooldown, because an instance too few costs requests"
        if in_seconds is None
        else "from the file",
    )
