"""Scaling policies: the capacity that step scaling or target tracking requests, and its alarms.

Sources (2026-11-22):
https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html
https://docs.aws.amazon.com/autoscaling/application/userguide/target-tracking-scaling-policy-overview.html
AWS documents target tracking's alarms on no page: they are as seen in exported policies.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from servable_scaling.scalable_target import (
    Aggregation,
    ScaledTarget,
    ScalingPropertyError,
    StepAdjustment,
    StepScaling,
    TargetTracking,
)

_AGGREGATED: Mapping[Aggregation, Callable[[Sequence[float]], float]] = {
    "Average": lambda values: sum(values) / len(values),
    "Minimum": min,
    "Maximum": max,
}


def aggregate_datapoints(policy: StepScaling, datapoints: Sequence[float]) -> float:
    """Return the alarm's datapoints as one value, by MetricAggregationType."""
    # Chosen: a step policy aggregates all datapoints that its alarm evaluated.
    return _AGGREGATED[policy.aggregation](datapoints)


def find_step(
    policy: StepScaling, metric: float, threshold: float, *, upward: bool
) -> StepAdjustment | None:
    """Return the step that contains the metric, or None.

    Above the threshold a lower bound belongs to its step, below it an upper bound does. At the
    threshold itself the alarm's comparison decides: `upward` for "greater".
    """
    breach = metric - threshold
    above = breach > 0 or (breach == 0 and upward)
    for step in policy.steps:
        lower = -math.inf if step.lower is None else step.lower
        upper = math.inf if step.upper is None else step.upper
        if (lower <= breach < upper) if above else (lower < breach <= upper):
            return step
    return None


def compute_adjusted_capacity(policy: StepScaling, step: StepAdjustment, capacity: int) -> int:
    """Return the capacity after a step, before the target's bounds apply."""
    if policy.kind == "ExactCapacity":
        return step.adjustment
    if policy.kind == "ChangeInCapacity":
        return max(0, capacity + step.adjustment)
    percent = capacity * step.adjustment / 100
    # 12.7 is 12, 0.67 is 1, -0.58 is -1, -6.67 is -6.
    change = int(math.copysign(1, percent)) if 0 < abs(percent) < 1 else math.trunc(percent)
    if change and abs(change) < policy.least_magnitude:
        change = int(math.copysign(policy.least_magnitude, change))
    return max(0, capacity + change)


_PERIOD_SECONDS = 60
# Chosen: period in seconds of a high-resolution metric's high alarm; that of its low alarm is 60.
_HIGH_RESOLUTION_SECONDS = 10
# Observed: minutes above the target on end until a tracking policy adds capacity.
_HIGH_DATAPOINTS = 3
# Observed: minutes below the low threshold on end until a tracking policy removes capacity.
_LOW_DATAPOINTS = 15
# Observed: low threshold of a tracking policy, as a share of its target.
_LOW_THRESHOLD_SHARE = 0.9
# Chosen: most that a tracking policy removes at once, in percent of the capacity and at least 1.
_SCALE_IN_PERCENT = 10
# Below that a quotient is a whole number: 10 x 1.1 is not 12.
_ROUNDING = 1e-9
# {predefined type: (metric, statistic, high resolution)}. Sources (2026-11-22):
# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html (metrics and statistics),
# https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-add-code-define.html (types).
# Chosen: of concurrent requests per model, and of provisioned concurrency in use, a tracking policy
# follows the average.
PREDEFINED: Mapping[str, tuple[str, str, bool]] = {
    "SageMakerVariantInvocationsPerInstance": ("InvocationsPerInstance", "Sum", False),
    "SageMakerVariantConcurrentRequestsPerModelHighResolution": (
        "ConcurrentRequestsPerModel", "Average", True,
    ),
    "SageMakerVariantProvisionedConcurrencyUtilization": (
        "ServerlessProvisionedConcurrencyUtilization", "Average", False,
    ),
    "SageMakerInferenceComponentInvocationsPerCopy": ("InvocationsPerCopy", "Sum", False),
    "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution": (
        "ConcurrentRequestsPerCopy", "Average", True,
    ),
}  # fmt: skip


def build_alarm_requests(
    policy: TargetTracking, target: ScaledTarget, *, suffix: str
) -> dict[str, dict[str, Any]]:
    """Return {AlarmHigh, AlarmLow: PutMetricAlarm's request}, without actions.

    There is no low one if the policy never scales in. `suffix` ends the names: a UUID on AWS.
    Raises `ScalingPropertyError`.
    """
    metric, high_resolution = _build_metric(policy, target)
    low = policy.target_value * _LOW_THRESHOLD_SHARE
    sides = {
        "AlarmHigh": ("GreaterThanThreshold", policy.target_value, _HIGH_DATAPOINTS),
        "AlarmLow": ("LessThanThreshold", low, _LOW_DATAPOINTS),
    }
    requests: dict[str, dict[str, Any]] = {}
    for side, (comparison, threshold, datapoints) in sides.items():
        if side == "AlarmLow" and not policy.scales_in:
            continue
        quick = high_resolution and side == "AlarmHigh"
        seconds = _HIGH_RESOLUTION_SECONDS if quick else _PERIOD_SECONDS
        requests[side] = {
            "AlarmName": f"TargetTracking-{target.resource_id}-{side}-{suffix}",
            "AlarmDescription": "DO NOT EDIT OR DELETE. For TargetTrackingScaling policy "
            f"{policy.name}.",
            "ComparisonOperator": comparison,
            "Threshold": threshold,
            "EvaluationPeriods": datapoints,
            "DatapointsToAlarm": datapoints,
            "TreatMissingData": "missing",
            **(metric if "Metrics" in metric else metric | {"Period": seconds}),
        }
    return requests


def _build_metric(policy: TargetTracking, target: ScaledTarget) -> tuple[dict[str, Any], bool]:
    """Return the alarms' metric in PutMetricAlarm's format, and whether it comes every 10 s."""
    custom = policy.request.get("CustomizedMetricSpecification")
    if custom is not None:
        if custom.get("Metrics"):
            return {"Metrics": list(custom["Metrics"])}, False
        kept = ("MetricName", "Namespace", "Dimensions", "Statistic", "Unit")
        return {name: custom[name] for name in kept if custom.get(name)}, False
    predefined = policy.request.get("PredefinedMetricSpecification") or {}
    kind = str(predefined.get("PredefinedMetricType"))
    parts = target.resource_id.split("/")
    of_component = parts[0] == "inference-component" and len(parts) == 2
    if kind not in PREDEFINED or not (of_component or len(parts) == 4):
        raise ScalingPropertyError(
            f"Policy {policy.name}: PredefinedMetricType {kind} of {target.resource_id} is not emulated; "
            f"allowed: {', '.join(PREDEFINED)}, or a CustomizedMetricSpecification."
        )
    name, statistic, high_resolution = PREDEFINED[kind]
    if of_component:
        dimensions = {"InferenceComponentName": parts[1]}
    else:
        dimensions = {"EndpointName": parts[1], "VariantName": parts[3]}
    return {
        "Namespace": "AWS/SageMaker",
        "MetricName": name,
        "Statistic": statistic,
        "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
    }, high_resolution


def compute_scale_out_capacity(policy: TargetTracking, metric: float, capacity: int) -> int:
    """Return the capacity in proportion to the metric, rounded up. It is unchanged within the target."""
    if metric <= policy.target_value:
        return capacity
    if capacity == 0:
        # A queue above its target starts the first instance (2026-11-28):
        # https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html
        return 1
    return math.ceil(capacity * metric / policy.target_value - _ROUNDING)


def compute_scale_in_capacity(policy: TargetTracking, metric: float, capacity: int) -> int:
    """Return the capacity after scaling in; unchanged if one less would exceed the target."""
    if capacity == 0 or metric >= policy.target_value:
        return capacity
    # Rounded up: all are needed where the metric x n / (n - 1) would exceed the target.
    needed = math.ceil(capacity * metric / policy.target_value - _ROUNDING)
    gradual = max(1, math.floor(capacity * _SCALE_IN_PERCENT / 100 + _ROUNDING))
    return max(needed, capacity - gradual)
