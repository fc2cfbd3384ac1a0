"""A variant's scaling policies as numbers, and as properties of CloudFormation, without CDK.

infra/constructs/scaling creates CDK's constructs with the numbers; a rehearsal of a day evaluates the
properties. tests/constructs/test_rehearsed_properties.py compares them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.parameters.environment import Environment
from infra.parameters.monitoring import OBJECTIVE, UNITS, WATCHED
from infra.parameters.placement import Placement
from infra.parameters.scaling import Scaling
from infra.policy.derived_settings import (
    STEP_MINUTES_ABOVE,
    STEP_MINUTES_BELOW,
    Cooldowns,
    compute_cooldowns,
    compute_target_invocations,
)
from infra.policy.hosting import COPIES, REAL_TIME

TARGET = "Target"
# A choice of ours, Application Auto Scaling's default; AWS's example of waking has 60. The alarm stays in
# ALARM for three minutes after the last rejected request, and sees it late: with 60 more than half of the
# wakes start a second copy that nobody needs, and 40 rehearsed days take a third more instance hours
# (2026-11-28).
WAKE_COOLDOWN_SECONDS = 300
BACKLOG = "ApproximateBacklogSizePerInstance"
Properties = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ScalingProperties:
    """A variant's scaling. References are resolved to keys of `targets` and `policies`."""

    resource: str
    targets: Mapping[str, Properties]
    policies: Mapping[str, Properties]
    alarms: Sequence[Properties]
    page: str
    """The rule of the composite alarm that wakes the on-call engineer."""


@dataclass(frozen=True, kw_only=True)
class TrackingPolicy:
    """A target tracking policy."""

    name: str
    value: float
    waits: Cooldowns
    metric: str | None
    """The predefined metric; None tracks the backlog per instance."""

    def properties(self, endpoint: str) -> Properties:
        """Return the policy's properties. `endpoint` is the name of the endpoint."""
        specification: Properties = {
            "PredefinedMetricSpecification": {"PredefinedMetricType": self.metric}
        }
        if self.metric is None:
            # AWS publishes the metric of the queue for the endpoint, without the dimension of a variant.
            dimensions = [{"Name": "EndpointName", "Value": endpoint}]
            queue = _build_metric(BACKLOG, "Average", dimensions)
            specification = {"CustomizedMetricSpecification": queue}
        return {
            "PolicyType": "TargetTrackingScaling",
            "TargetTrackingScalingPolicyConfiguration": {
                **specification,
                "ScaleInCooldown": self.waits.in_seconds,
                "ScaleOutCooldown": self.waits.out_seconds,
                "TargetValue": self.value,
            },
        }


@dataclass(frozen=True, kw_only=True)
class Adjustment:
    """A step. Its bounds are relative to the threshold of the policy's alarm; None is open."""

    change: int
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, kw_only=True)
class StepPolicy:
    """A step policy, and the condition of the alarm that triggers it."""

    name: str
    cooldown_seconds: int
    adjustments: Sequence[Adjustment]
    exact: bool = False
    """Whether an adjustment sets the capacity. Default: it changes the capacity."""
    above: bool
    """Whether the alarm fires at the threshold and above, or else at the threshold and below."""
    threshold: float
    minutes: int
    period_seconds: int = 60
    missing: str = "notBreaching"

    @property
    def bound_rps(self) -> float:
        """The threshold of an alarm on requests, in requests per second and instance."""
        return self.threshold / self.period_seconds

    @property
    def periods(self) -> int:
        """Periods on end after which the alarm fires."""
        return math.ceil(60 * self.minutes / self.period_seconds)

    @property
    def policy(self) -> Properties:
        """The policy's properties."""
        steps = [
            {
                "MetricIntervalLowerBound": each.lower,
                "MetricIntervalUpperBound": each.upper,
                "ScalingAdjustment": each.change,
            }
            for each in self.adjustments
        ]
        return {
            "PolicyType": "StepScaling",
            "StepScalingPolicyConfiguration": {
                "AdjustmentType": "ExactCapacity" if self.exact else "ChangeInCapacity",
                "Cooldown": self.cooldown_seconds,
                "MetricAggregationType": "Average",
                "StepAdjustments": [
                    {name: value for name, value in step.items() if value is not None}
                    for step in steps
                ],
            },
        }

    @property
    def alarm(self) -> Properties:
        """The condition of the alarm."""
        comparison = f"{'Greater' if self.above else 'Less'}ThanOrEqualToThreshold"
        return _build_condition(comparison, self.threshold, self.periods, self.missing)


def build_scaling_properties(environment: Environment, placed: Placement) -> ScalingProperties:
    """Return the scaling of one variant with instances, with alarms that evaluate each minute."""
    endpoint, variant = environment.endpoint.name, placed.variant
    resource = f"endpoint/{endpoint}/variant/{placed.name}"
    dimension, sleeps = REAL_TIME.scalable_dimension, variant.can_sleep
    dimensions = [
        {"Name": "EndpointName", "Value": endpoint},
        {"Name": "VariantName", "Value": placed.name},
    ]
    targets: dict[str, Properties] = {}
    policies: dict[str, Properties] = {}
    alarms = list(_build_objective_alarms(environment, placed.name, dimensions))
    page = " OR ".join(f'ALARM("{alarm["AlarmName"]}")' for alarm in alarms)
    if sleeps:
        component = environment.components[placed.name]
        resource, dimension = f"inference-component/{component}", COPIES
    scaling = variant.scaling or (Scaling() if sleeps else None)
    if scaling is not None and variant.is_scaled:
        waits = choose_cooldowns(scaling, placed.start_seconds)
        targets[TARGET] = build_scalable_target(resource, dimension, variant.capacity, scaling)
        policies = {
            each.name: each.properties(endpoint)
            for each in build_tracking_policies(scaling, waits, copies=sleeps)
            if each.name in ("Tracking", "Concurrency")  # a day has neither a queue nor cold starts
        }
        for steps in build_step_policies(scaling, waits, period_seconds=60):
            name = f"Steps{steps.name}"
            policies[name] = steps.policy
            alarms.append(
                {
                    "AlarmName": f"{endpoint}-{placed.name}-steps-{steps.name.lower()}",
                    "AlarmActions": [name],
                    **steps.alarm,
                    # The template fills minutes without traffic with zero; a rehearsal has a zero there.
                    **_build_metric("InvocationsPerInstance", "Sum", dimensions),
                    "Period": 60,
                }
            )
    if sleeps:
        for each in build_sleep_policies(variant.sleep_after_minutes or 0):
            policies[each.name] = each.policy
            alarms.append(_build_sleep_alarm(component, each))
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


def _build_sleep_alarm(component: str, each: "SleepPolicy") -> Properties:
    """Return the alarm that scales a component's copies to zero, or starts the first copy."""
    dimensions = [{"Name": "InferenceComponentName", "Value": component}]
    named = {"AlarmName": f"{component}-{each.alarm_ending}", "AlarmActions": [each.name]}
    return {**named, **each.alarm, **_build_metric(each.metric, "Sum", dimensions), "Period": 60}


def choose_cooldowns(scaling: Scaling, start_seconds: float | None) -> Cooldowns:
    """Return the cooldowns of the scaling table, or the default ones."""
    return compute_cooldowns(
        out_seconds=scaling.scale_out_cooldown_seconds,
        in_seconds=scaling.scale_in_cooldown_seconds,
        start_seconds=start_seconds,
    )


def build_scalable_target(
    resource: str, dimension: str, capacity: tuple[int, int], scaling: Scaling
) -> Properties:
    """Return the scalable target with its scheduled actions, but without its role."""
    actions = []
    for number, action in enumerate(scaling.schedule):
        bounds = {"MaxCapacity": action.at_most, "MinCapacity": action.at_least}
        given = {name: bound for name, bound in bounds.items() if bound is not None}
        actions.append(
            {
                "ScalableTargetAction": given,
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


def build_tracking_policies(
    scaling: Scaling, waits: Cooldowns, *, copies: bool = False
) -> Iterator[TrackingPolicy]:
    """Yield the target tracking policies of the table, for instances or for `copies`."""
    rps, safety = scaling.max_rps_per_instance, scaling.safety_factor
    concurrency, backlog = scaling.max_concurrency_per_instance, scaling.max_backlog_per_instance
    use_percent = scaling.provisioned_use_percent
    variant, component = "SageMakerVariant", "SageMakerInferenceComponent"
    tracked: dict[str, tuple[float | None, str | None]] = {
        "Tracking": (
            rps and compute_target_invocations(max_rps_per_instance=rps, safety_factor=safety),
            f"{component}InvocationsPerCopy" if copies else f"{variant}InvocationsPerInstance",
        ),
        # The metric is published every 10 s instead of every minute.
        "Concurrency": (
            concurrency and concurrency * safety,
            f"{component}ConcurrentRequestsPerCopyHighResolution"
            if copies
            else f"{variant}ConcurrentRequestsPerModelHighResolution",
        ),
        # A share, 0 to 1: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints-autoscale.html
        "Provisioned": (
            use_percent and use_percent / 100,
            f"{variant}ProvisionedConcurrencyUtilization",
        ),
        "Backlog": (backlog and backlog * safety, None),
    }
    for name, (value, metric) in tracked.items():
        if value is not None:
            yield TrackingPolicy(name=name, value=value, waits=waits, metric=metric)


def _build_metric(name: str, statistic: str, dimensions: Sequence[Properties]) -> Properties:
    return {
        "Dimensions": dimensions,
        "MetricName": name,
        "Namespace": "AWS/SageMaker",
        "Statistic": statistic,
    }


def build_step_policies(
    scaling: Scaling, waits: Cooldowns, *, period_seconds: int
) -> Iterator[StepPolicy]:
    """Yield the policies of steps up and of steps down, for requests per period of `period_seconds`."""
    up = sorted(
        (step.above_rps, step.change) for step in scaling.steps if step.above_rps is not None
    )
    down = sorted(
        (step.below_rps, step.change) for step in scaling.steps if step.below_rps is not None
    )
    for name, bounds, minutes in (
        ("Out", up, STEP_MINUTES_ABOVE),
        ("In", down[::-1], STEP_MINUTES_BELOW),
    ):
        if not bounds:
            continue
        first, above = bounds[0][0], name == "Out"
        # Each step reaches to the next bound; the last one is open.
        starts = [(bound - first) * period_seconds for bound, _ in bounds]
        adjustments = []
        for (_, change), near, far in zip(bounds, starts, [*starts[1:], None], strict=True):
            lower, upper = (near, far) if above else (far, near)
            adjustments.append(Adjustment(change=change, lower=lower, upper=upper))
        yield StepPolicy(
            name=name,
            cooldown_seconds=waits.out_seconds,
            adjustments=adjustments,
            above=above,
            threshold=first * period_seconds,
            minutes=minutes,
            period_seconds=period_seconds,
        )


def _build_condition(comparison: str, threshold: float, periods: int, missing: str) -> Properties:
    """Return the condition of an alarm that fires after so many periods on end."""
    return {
        "ComparisonOperator": comparison,
        "Threshold": threshold,
        "EvaluationPeriods": periods,
        "DatapointsToAlarm": periods,
        "TreatMissingData": missing,
    }


@dataclass(frozen=True, kw_only=True)
class SleepPolicy(StepPolicy):
    """A policy of copies that sleep, Wake or Asleep, and the alarm on `metric` that triggers it."""

    alarm_ending: str
    metric: str


def build_sleep_policies(minutes: int) -> Iterator[SleepPolicy]:
    """Yield the policies that start the first copy and that scale to zero.

    The last copy ends after `minutes` without a request. The first copy starts after a request
    that found none. AWS's page starts it above 1 failure a minute, which a single caller doesn't
    reach with its first call:
    https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html
    (2026-11-23)
    """
    # What fell asleep within the cooldown could not be woken.
    cooldown = min(WAKE_COOLDOWN_SECONDS, 60 * minutes)
    yield SleepPolicy(
        name="Wake",
        alarm_ending="wake",
        metric="NoCapacityInvocationFailures",
        cooldown_seconds=cooldown,
        adjustments=[Adjustment(change=1, lower=0)],
        above=True,
        threshold=1,
        minutes=1,
    )
    yield SleepPolicy(
        name="Asleep",
        alarm_ending="sleep",
        metric="InvocationsPerCopy",
        cooldown_seconds=60,
        adjustments=[Adjustment(change=0, upper=0)],
        exact=True,
        above=False,
        threshold=0,
        # While it sleeps there is no data. As "missing" that leaves the alarm in ALARM as long as it looks
        # back, and it acts once a minute in ALARM: a copy that starts meanwhile ends in its first minute.
        # https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-actions.html (2026-11-28)
        minutes=minutes,
    )


def _build_objective_alarms(
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
            **_build_condition(
                "GreaterThanThreshold", threshold, alarms.window_minutes, "notBreaching"
            ),
            **_build_metric(metric, statistic, dimensions),
            "Period": 60,
        }
        if statistic.startswith("p"):
            condition["ExtendedStatistic"] = condition.pop("Statistic")
            condition["EvaluateLowSampleCountPercentile"] = "evaluate"
        yield condition
