"""A variant's scalable target, policies and alarms as properties of CloudFormation, without CDK.

infra/constructs/scaling puts them into the template, and a rehearsal of a day evaluates them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.parameters.alarms import OBJECTIVE, UNITS, WATCHED
from infra.parameters.environment import Environment
from infra.parameters.placement import Placement
from infra.parameters.scaling import Scaling
from infra.policy.derived_settings import (
    STEP_MINUTES_ABOVE,
    STEP_MINUTES_BELOW,
    Cooldowns,
    cooldowns,
    invocations_per_instance_per_minute,
)
from infra.policy.hosting import COPIES, REAL_TIME

TARGET = "Target"
# A choice of ours, Application Auto Scaling's default; AWS's example of waking has 60. The alarm holds on for
# three minutes after the last refused request, and sees it late: with 60 more than half of the wakes start a
# second copy that nobody needs, and 40 rehearsed days take a third more instance hours (2026-11-28).
WAKE_COOLDOWN_SECONDS = 300
_LOWER, _UPPER = "MetricIntervalLowerBound", "MetricIntervalUpperBound"
Properties = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ScalingProperties:
    """References are resolved to the keys of `targets` and `policies`."""

    resource: str
    targets: Mapping[str, Properties]
    policies: Mapping[str, Properties]
    alarms: Sequence[Properties]
    page: str
    """The rule of the composite alarm that wakes the on-call engineer."""


@dataclass(frozen=True, kw_only=True)
class StepPolicy:
    """A step policy, and the condition of the alarm that triggers it."""

    way: str
    """Out or In."""
    bound_rps: float
    """The first bound, in requests per second and instance."""
    minutes: int
    policy: Properties
    alarm: Properties


def scaling_properties(environment: Environment, placed: Placement) -> ScalingProperties:
    """Return the properties of one variant with instances, with the alarms of steps and of the objective.

    The alarms are by the minute, as a rehearsal is, also if [metrics] publishes at other intervals.
    """
    endpoint, variant = environment.endpoint.name, placed.variant
    resource = f"endpoint/{endpoint}/variant/{placed.name}"
    dimension, sleeps = REAL_TIME.scalable_dimension, variant.sleeps
    dimensions = [
        {"Name": "EndpointName", "Value": endpoint},
        {"Name": "VariantName", "Value": placed.name},
    ]
    targets: dict[str, Properties] = {}
    policies: dict[str, Properties] = {}
    alarms = list(_objective(environment, placed.name, dimensions))
    page = " OR ".join(f'ALARM("{alarm["AlarmName"]}")' for alarm in alarms)
    if sleeps:
        component = environment.components[placed.name]
        resource, dimension = f"inference-component/{component}", COPIES
    scaling = variant.scaling or (Scaling() if sleeps else None)
    if scaling is not None and variant.scales:
        waits = waits_of(scaling, placed.start_seconds)
        targets[TARGET] = scalable_target(resource, dimension, variant.capacity, scaling)
        policies = {
            name: policy
            for name, policy in tracking(scaling, waits, endpoint, copies=sleeps).items()
            if name in ("Tracking", "Concurrency")  # a day has neither a queue nor cold starts
        }
        for steps in step_policies(scaling, waits, period_seconds=60):
            name = f"Steps{steps.way}"
            policies[name] = steps.policy
            alarms.append(
                {
                    "AlarmName": f"{endpoint}-{placed.name}-steps-{steps.way.lower()}",
                    "AlarmActions": [name],
                    **steps.alarm,
                    # The template fills minutes without traffic with zero; a rehearsal has a zero there.
                    **_metric("InvocationsPerInstance", "Sum", dimensions),
                    "Period": 60,
                }
            )
    if sleeps:
        for each in sleep_policies(variant.sleep_after_minutes or 0):
            policies[each.name] = each.policy
            alarms.append(_sleep_alarm(component, each))
    return ScalingProperties(
        resource=resource,
        targets=targets,
        policies={
            name: {"PolicyName": name, "ScalingTargetId": TARGET, **policy}
            for name, policy in policies.items()
        },
        alarms=alarms,
        page="" if variant.shadow else page,
    )


def _sleep_alarm(component: str, each: "SleepPolicy") -> Properties:
    """The alarm that puts a component's copies to sleep, or wakes them."""
    dimensions = [{"Name": "InferenceComponentName", "Value": component}]
    named = {"AlarmName": f"{component}-{each.alarm_ending}", "AlarmActions": [each.name]}
    return {**named, **each.alarm, **_metric(each.metric, "Sum", dimensions), "Period": 60}


def waits_of(scaling: Scaling, start_seconds: float | None) -> Cooldowns:
    """The cooldowns of the table, or the default ones."""
    return cooldowns(
        out_seconds=scaling.scale_out_cooldown_seconds,
        in_seconds=scaling.scale_in_cooldown_seconds,
        start_seconds=start_seconds,
    )


def scalable_target(
    resource: str, dimension: str, capacity: tuple[int, int], scaling: Scaling
) -> Properties:
    """The scalable target with its scheduled actions, but without its role."""
    actions = []
    for number, action in enumerate(scaling.schedule):
        bounds = {"MaxCapacity": action.at_most, "MinCapacity": action.at_least}
        actions.append(
            {
                "ScalableTargetAction": {
                    name: bound for name, bound in bounds.items() if bound is not None
                },
                "Schedule": action.at,
                "ScheduledActionName": f"Scheduled{number}",
                "Timezone": action.timezone,
            }
        )
    return {
        "MaxCapacity": capacity[1],
        "MinCapacity": capacity[0],
        "ResourceId": resource,
        "ScalableDimension": dimension,
        **({"ScheduledActions": actions} if actions else {}),
        "ServiceNamespace": "sagemaker",
    }


def tracking(
    scaling: Scaling, waits: Cooldowns, endpoint: str, *, copies: bool = False
) -> dict[str, Properties]:
    """The target tracking policies of the table, by their names; of `copies` and not of instances."""
    rps, safety = scaling.max_rps_per_instance, scaling.safety_factor
    concurrency, backlog = scaling.max_concurrency_per_instance, scaling.max_backlog_per_instance
    use_percent = scaling.provisioned_use_percent
    # AWS publishes the metric of the queue for the endpoint, without the dimension of a variant.
    dimensions = [{"Name": "EndpointName", "Value": endpoint}]
    queue = _metric("ApproximateBacklogSizePerInstance", "Average", dimensions)
    tracked = {
        "Tracking": (
            rps
            and invocations_per_instance_per_minute(max_rps_per_instance=rps, safety_factor=safety),
            _predefined("InvocationsPerInstance") if not copies else _per_copy("Invocations"),
        ),
        # The metric is published every 10 s instead of every minute.
        "Concurrency": (
            concurrency and concurrency * safety,
            _predefined("ConcurrentRequestsPerModelHighResolution")
            if not copies
            else _per_copy("ConcurrentRequests", "HighResolution"),
        ),
        # A share, 0 to 1: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints-autoscale.html
        "Provisioned": (
            use_percent and use_percent / 100,
            _predefined("ProvisionedConcurrencyUtilization"),
        ),
        "Backlog": (backlog and backlog * safety, {"CustomizedMetricSpecification": queue}),
    }
    return {
        name: {
            "PolicyType": "TargetTrackingScaling",
            "TargetTrackingScalingPolicyConfiguration": {
                **specification,
                "ScaleInCooldown": waits.in_seconds,
                "ScaleOutCooldown": waits.out_seconds,
                "TargetValue": value,
            },
        }
        for name, (value, specification) in tracked.items()
        if value is not None
    }


def _predefined(metric: str) -> Properties:
    name = f"SageMakerVariant{metric}"
    return {"PredefinedMetricSpecification": {"PredefinedMetricType": name}}


def _per_copy(metric: str, ending: str = "") -> Properties:
    name = f"SageMakerInferenceComponent{metric}PerCopy{ending}"
    return {"PredefinedMetricSpecification": {"PredefinedMetricType": name}}


def _metric(name: str, statistic: str, dimensions: Sequence[Properties]) -> Properties:
    return {
        "Dimensions": dimensions,
        "MetricName": name,
        "Namespace": "AWS/SageMaker",
        "Statistic": statistic,
    }


def step_policies(
    scaling: Scaling, waits: Cooldowns, *, period_seconds: int
) -> Iterator[StepPolicy]:
    """The policy of the steps up, and that of the steps down; SageMaker counts requests by the period."""
    up = sorted(
        (step.above_rps, step.change) for step in scaling.steps if step.above_rps is not None
    )
    down = sorted(
        (step.below_rps, step.change) for step in scaling.steps if step.below_rps is not None
    )
    for way, bounds, minutes, (near, far), comparison in (
        ("Out", up, STEP_MINUTES_ABOVE, (_LOWER, _UPPER), "GreaterThanOrEqualToThreshold"),
        ("In", down[::-1], STEP_MINUTES_BELOW, (_UPPER, _LOWER), "LessThanOrEqualToThreshold"),
    ):
        if not bounds:
            continue
        first = bounds[0][0]
        # Each step reaches to the next bound; the last one is open.
        ends = [(bound - first) * period_seconds for bound, _ in bounds[1:]]
        adjustments: list[Properties] = []
        for (bound, change), end in zip(bounds, [*ends, None], strict=True):
            step = {near: (bound - first) * period_seconds, "ScalingAdjustment": change}
            adjustments.append(dict(sorted((step if end is None else step | {far: end}).items())))
        yield StepPolicy(
            way=way,
            bound_rps=first,
            minutes=minutes,
            policy=step_policy(waits, adjustments),
            alarm=step_alarm(comparison, first * period_seconds, minutes, period_seconds),
        )


def step_policy(
    waits: Cooldowns, adjustments: Sequence[Properties], kind: str = "ChangeInCapacity"
) -> Properties:
    """A step policy with these adjustments, whose bounds are relative to its alarm's threshold."""
    return {
        "PolicyType": "StepScaling",
        "StepScalingPolicyConfiguration": {
            "AdjustmentType": kind,
            "Cooldown": waits.out_seconds,
            "MetricAggregationType": "Average",
            "StepAdjustments": adjustments,
        },
    }


def step_alarm(
    comparison: str,
    threshold: float,
    minutes: int,
    period_seconds: int,
    missing: str = "notBreaching",
) -> Properties:
    """The condition of an alarm that fires after so many consecutive minutes."""
    periods = math.ceil(60 * minutes / period_seconds)
    return {
        "ComparisonOperator": comparison,
        "Threshold": threshold,
        "EvaluationPeriods": periods,
        "DatapointsToAlarm": periods,
        "TreatMissingData": missing,
    }


@dataclass(frozen=True, kw_only=True)
class SleepPolicy:
    """A policy of copies that sleep, and the condition of the alarm that triggers it."""

    name: str
    """Wake or Asleep; the alarm is named after `alarm_ending`."""
    alarm_ending: str
    metric: str
    policy: Properties
    alarm: Properties


def sleep_policies(minutes: int) -> Iterator[SleepPolicy]:
    """No copy after minutes without a request, and the first one after a request that found none.

    AWS's page wakes above 1 failure a minute, which one caller alone does not reach in its first call:
    https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html (2026-11-23)
    """
    # What fell asleep within the cooldown could not be woken.
    cooldown = min(WAKE_COOLDOWN_SECONDS, 60 * minutes)
    yield SleepPolicy(
        name="Wake",
        alarm_ending="wake",
        metric="NoCapacityInvocationFailures",
        policy=step_policy(_waits(cooldown), [{_LOWER: 0, "ScalingAdjustment": 1}]),
        alarm=step_alarm("GreaterThanOrEqualToThreshold", 1, 1, 60),
    )
    none = {_UPPER: 0, "ScalingAdjustment": 0}
    yield SleepPolicy(
        name="Asleep",
        alarm_ending="sleep",
        metric="InvocationsPerCopy",
        policy=step_policy(_waits(60), [none], kind="ExactCapacity"),
        # While it sleeps there is no data. As "missing" that leaves the alarm in ALARM as long as it looks
        # back, and it acts once a minute in ALARM: a copy that starts meanwhile ends in its first minute.
        # https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-actions.html (2026-11-28)
        alarm=step_alarm("LessThanOrEqualToThreshold", 0, minutes, 60),
    )


def _waits(seconds: int) -> Cooldowns:
    return Cooldowns(out_seconds=seconds, in_seconds=seconds, out_reason="", in_reason="")


def _objective(
    environment: Environment, variant: str, dimensions: Sequence[Properties]
) -> Iterator[Properties]:
    alarms = environment.alarms
    for kind in OBJECTIVE:
        graph = "errors" if kind == "5xx" else "latency"
        _, metric, statistic, key = WATCHED[graph][kind]
        threshold = getattr(alarms, key)
        if threshold is None:
            continue
        threshold *= UNITS[graph].in_the_metric
        condition = {
            "AlarmName": f"{environment.endpoint.name}-{variant}-{kind}",
            **step_alarm("GreaterThanThreshold", threshold, alarms.window_minutes, 60),
            **_metric(metric, statistic, dimensions),
            "Period": 60,
        }
        if statistic.startswith("p"):
            condition["ExtendedStatistic"] = condition.pop("Statistic")
            condition["EvaluateLowSampleCountPercentile"] = "evaluate"
        yield condition
