"""A variant's scalable target, policies and alarms, as its template has them, without CDK.

What rehearses a day needs them in milliseconds; a test compares each with the synthesised template.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.parameters.environment import Environment
from infra.parameters.placement import Placement
from infra.parameters.scaling import Scaling, Step
from infra.policy.scaling import (
    STEP_MINUTES_ABOVE,
    STEP_MINUTES_BELOW,
    Cooldowns,
    cooldowns,
    invocations_per_instance_per_minute,
)

TARGET = "Target"
SAGEMAKER = "AWS/SageMaker"
Properties = dict[str, Any]
# {name: (metric, statistic, key in [alarms], its unit in the metric's)}
_OBJECTIVE = {
    "p50-latency": ("ModelLatency", "p50", "p50_latency_ms", 1000.0),
    "p90-latency": ("ModelLatency", "p90", "p90_latency_ms", 1000.0),
    "p99-latency": ("ModelLatency", "p99", "p99_latency_ms", 1000.0),
    "5xx": ("Invocation5XXErrors", "Average", "error_5xx_percent", 0.01),
}


@dataclass(frozen=True, kw_only=True)
class ScalingProperties:
    """References are resolved to the keys of `targets` and `policies`."""

    resource: str
    targets: Mapping[str, Properties]
    policies: Mapping[str, Properties]
    alarms: Sequence[Properties]
    page: str
    """The rule of the composite alarm that wakes the on-call engineer."""


def scaling_properties(environment: Environment, placed: Placement) -> ScalingProperties:
    """Return the properties of one variant with instances, with the alarms of steps and of the objective.

    The alarms are by the minute, as a rehearsal is, also if [metrics] publishes at other intervals.
    """
    endpoint, variant = environment.endpoint.name, placed.variant
    resource = f"endpoint/{endpoint}/variant/{placed.name}"
    dimensions = [
        {"Name": "EndpointName", "Value": endpoint},
        {"Name": "VariantName", "Value": placed.name},
    ]
    targets: dict[str, Properties] = {}
    policies: dict[str, Properties] = {}
    alarms = list(_objective(environment, placed.name, dimensions))
    page = "" if variant.shadow else " OR ".join(f'ALARM("{one["AlarmName"]}")' for one in alarms)
    if variant.scaling is not None and variant.scales:
        scaling = variant.scaling
        waits = cooldowns(
            out_seconds=scaling.scale_out_cooldown_seconds,
            in_seconds=scaling.scale_in_cooldown_seconds,
            start_seconds=placed.start_seconds,
        )
        targets[TARGET] = _target(resource, variant.capacity, scaling)
        policies = {
            name: {"PolicyName": name, "ScalingTargetId": TARGET, **one}
            for name, one in (*_tracking(scaling, waits), *_steps(scaling, waits))
        }
        alarms += _step_alarms(scaling, f"{endpoint}-{placed.name}", dimensions)
    return ScalingProperties(
        resource=resource, targets=targets, policies=policies, alarms=alarms, page=page
    )


def _target(resource: str, capacity: tuple[int, int], scaling: Scaling) -> Properties:
    actions = [
        {
            "ScheduledActionName": f"Scheduled{number}",
            "Schedule": one.at,
            "Timezone": one.timezone,
            "ScalableTargetAction": {
                name: bound
                for name, bound in (("MinCapacity", one.at_least), ("MaxCapacity", one.at_most))
                if bound is not None
            },
        }
        for number, one in enumerate(scaling.schedule)
    ]
    return {
        "ServiceNamespace": "sagemaker",
        "ResourceId": resource,
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "MinCapacity": capacity[0],
        "MaxCapacity": capacity[1],
        **({"ScheduledActions": actions} if actions else {}),
    }


def _tracking(scaling: Scaling, waits: Cooldowns) -> Iterator[tuple[str, Properties]]:
    tracked: list[tuple[str, float, str]] = []
    if scaling.max_rps_per_instance is not None:
        target = invocations_per_instance_per_minute(
            max_rps_per_instance=scaling.max_rps_per_instance, safety_factor=scaling.safety_factor
        )
        tracked.append(("Tracking", target, "SageMakerVariantInvocationsPerInstance"))
    if scaling.max_concurrency_per_instance is not None:
        target = scaling.max_concurrency_per_instance * scaling.safety_factor
        kind = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
        tracked.append(("Concurrency", target, kind))
    for name, target, kind in tracked:
        yield (
            name,
            {
                "PolicyType": "TargetTrackingScaling",
                "TargetTrackingScalingPolicyConfiguration": {
                    "PredefinedMetricSpecification": {"PredefinedMetricType": kind},
                    "ScaleInCooldown": waits.in_seconds,
                    "ScaleOutCooldown": waits.out_seconds,
                    "TargetValue": target,
                },
            },
        )


def _bounds(steps: Sequence[Step], way: str) -> list[tuple[float, int]]:
    """(requests a minute and instance, change): up from the lowest, down from the highest."""
    if way == "Out":
        return sorted(
            (60 * one.above_rps, one.change) for one in steps if one.above_rps is not None
        )
    below = ((60 * one.below_rps, one.change) for one in steps if one.below_rps is not None)
    return sorted(below, reverse=True)


def _steps(scaling: Scaling, waits: Cooldowns) -> Iterator[tuple[str, Properties]]:
    for way, near, far in (
        ("Out", "MetricIntervalLowerBound", "MetricIntervalUpperBound"),
        ("In", "MetricIntervalUpperBound", "MetricIntervalLowerBound"),
    ):
        bounds = _bounds(scaling.steps, way)
        if not bounds:
            continue
        first = bounds[0][0]
        ends = [bound - first for bound, _ in bounds[1:]]
        adjustments: list[Properties] = []
        for (bound, change), end in zip(bounds, [*ends, None], strict=True):
            open_end = {} if end is None else {far: end}
            adjustments.append({near: bound - first, **open_end, "ScalingAdjustment": change})
        yield (
            f"Steps{way}",
            {
                "PolicyType": "StepScaling",
                "StepScalingPolicyConfiguration": {
                    "AdjustmentType": "ChangeInCapacity",
                    "Cooldown": waits.out_seconds,
                    "MetricAggregationType": "Average",
                    "StepAdjustments": adjustments,
                },
            },
        )


def _step_alarms(
    scaling: Scaling, prefix: str, dimensions: Sequence[Properties]
) -> Iterator[Properties]:
    for way, comparison, minutes in (
        ("Out", "GreaterThanOrEqualToThreshold", STEP_MINUTES_ABOVE),
        ("In", "LessThanOrEqualToThreshold", STEP_MINUTES_BELOW),
    ):
        bounds = _bounds(scaling.steps, way)
        if bounds:
            yield {
                "AlarmName": f"{prefix}-steps-{way.lower()}",
                "AlarmActions": [f"Steps{way}"],
                "ComparisonOperator": comparison,
                "Threshold": bounds[0][0],
                "EvaluationPeriods": minutes,
                "DatapointsToAlarm": minutes,
                "TreatMissingData": "notBreaching",
                "Namespace": SAGEMAKER,
                "MetricName": "InvocationsPerInstance",
                "Statistic": "Sum",
                "Period": 60,
                "Dimensions": dimensions,
            }


def _objective(
    environment: Environment, variant: str, dimensions: Sequence[Properties]
) -> Iterator[Properties]:
    alarms = environment.alarms
    for kind, (metric, statistic, key, factor) in _OBJECTIVE.items():
        threshold = getattr(alarms, key)
        if threshold is None:
            continue
        percentile = statistic.startswith("p")
        yield {
            "AlarmName": f"{environment.endpoint.name}-{variant}-{kind}",
            "ComparisonOperator": "GreaterThanThreshold",
            "Threshold": threshold * factor,
            "EvaluationPeriods": alarms.window_minutes,
            "DatapointsToAlarm": alarms.window_minutes,
            "TreatMissingData": "notBreaching",
            "Namespace": SAGEMAKER,
            "MetricName": metric,
            "ExtendedStatistic" if percentile else "Statistic": statistic,
            **({"EvaluateLowSampleCountPercentile": "evaluate"} if percentile else {}),
            "Period": 60,
            "Dimensions": dimensions,
        }
