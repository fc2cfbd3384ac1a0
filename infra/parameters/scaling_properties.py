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


def _drop_none(properties: Properties) -> Properties:
    return {name: value for name, value in properties.items() if value is not None}


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
        predefined = {"PredefinedMetricType": self.metric}
        specification: Properties = {"PredefinedMetricSpecification": predefined}
        if self.metric is None:
            # AWS publishes the metric of the queue for the endpoint, without the dimension of a variant.
            queue = _build_metric(BACKLOG, "Average", [{"Name": "EndpointName", "Value": endpoint}])
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
    metric: str = "InvocationsPerInstance"
    """The metric that the alarm watches."""
    alarm_ending: str
    """End of the alarm's name."""

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
                "StepAdjustments": [*map(_drop_none, steps)],
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
    stepped: list[tuple[str, Sequence[Properties], StepPolicy]] = []
    if scaling is not None and variant.is_scaled:
        waits = choose_cooldowns(scaling, placed.start_seconds)
        targets[TARGET] = build_scalable_target(resource, dimension, variant.capacity, scaling)
        policies = {
            each.name: each.properties(endpoint)
            for each in build_tracking_policies(scaling, waits, copies=sleeps)
            if each.name in ("Tracking", "Concurrency")  # a day has neither a queue nor cold starts
        }
        steps = build_step_policies(scaling, waits, period_seconds=60)
        stepped += [("Steps", dimensions, each) for each in steps]
    if sleeps:
        copies = [{"Name": "InferenceComponentName", "Value": component}]
        slept = build_sleep_policies(variant.sleep_after_minutes or 0)
        stepped += [("", copies, each) for each in slept]
    for prefix, of, each in stepped:
        policies[f"{prefix}{each.name}"] = each.policy
        alarms.append(
            {
                "AlarmName": f"{endpoint}-{placed.name}-{each.alarm_ending}",
                "AlarmActions": [f"{prefix}{each.name}"],
                **each.alarm,
                # The template fills minutes without traffic with zero; a rehearsal has a zero there.
                **_build_metric(each.metric, "Sum", of),
                "Period": 60,
            }
        )
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
    actions = [
        {
            "ScalableTargetAction": _drop_none(
                {"MaxCapacity": action.at_most, "MinCapacity": action.at_least}
            ),
            "Schedule": action.at,
            "ScheduledActionName": f"Scheduled{number}",
            "Timezone": action.timezone,
        }
        for number, action in enumerate(scaling.schedule)
    ]
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
    for name, key, minutes in (
        ("Out", "above_rps", STEP_MINUTES_ABOVE),
        ("In", "below_rps", STEP_MINUTES_BELOW),
    ):
        above, given = name == "Out", [(getattr(step, key), step.change) for step in scaling.steps]
        bounds = sorted((each for each in given if each[0] is not None), reverse=not above)
        if not bounds:
            continue
        first = bounds[0][0]
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
            alarm_ending=f"steps-{name.lower()}",
        )


def _build_condition(comparison: str, threshold: float, periods: int, missing: str) -> Properties:
    """Return the condition of an alarm that fires after so many periods on end."""
    return {
        "ComparisonOperator": comparison, "Threshold": threshold, "EvaluationPeriods": periods,
        "DatapointsToAlarm": periods, "TreatMissingData": missing,
    }  # fmt: skip


def build_sleep_policies(minutes: int) -> Iterator[StepPolicy]:
    """Yield the policies that start the first copy and that scale to zero.

    The last copy ends after `minutes` without a request. The first copy starts after a request
    that found none. AWS's page starts it above 1 failure a minute, which a single caller doesn't
    reach with its first call:
    https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html
    (2026-11-23)
    """
    # What fell asleep within the cooldown could not be woken.
    cooldown = min(WAKE_COOLDOWN_SECONDS, 60 * minutes)
    yield StepPolicy(
        name="Wake",
        alarm_ending="wake",
        metric="NoCapacityInvocationFailures",
        cooldown_seconds=cooldown,
        adjustments=[Adjustment(change=1, lower=0)],
        above=True,
        threshold=1,
        minutes=1,
    )
    yield StepPolicy(
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
