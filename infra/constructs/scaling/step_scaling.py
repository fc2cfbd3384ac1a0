"""Step scaling: several instances at once when traffic jumps or falls, and scale from zero for a queue."""

import math
from collections.abc import Iterable, Sequence

import aws_cdk as cdk
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from constructs import Construct

from infra.constructs.endpoint.model_endpoint import ModelEndpoint
from infra.constructs.monitoring.measured import Computed, Metric
from infra.parameters.scaling import Step
from infra.policy.scaling import STEP_MINUTES_ABOVE, STEP_MINUTES_BELOW

SECONDS_PER_MINUTE = 60
# https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html
MINUTES_WAITING = 2
Comparison = cloudwatch.ComparisonOperator
Adjustments = Iterable[tuple[int, float | None, float | None]]
"""(instances to add, lower bound, upper bound); bounds are relative to the threshold, None is open."""


class ScalingSteps(Construct):
    """A policy and an alarm for the steps up, and one of each for the steps down."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: ModelEndpoint,
        variant: str,
        target: autoscaling.ScalableTarget,
        steps: Sequence[Step],
        cooldown: cdk.Duration,
    ) -> None:
        super().__init__(scope, construct_id)
        per_instance = endpoint.metrics.invocations_per_instance(variant)
        # Without traffic there is no data; filled with zero it is below every bound.
        zeroed = Computed(
            expression="FILL(requests, 0)",
            using={"requests": per_instance},
            label=f"{variant}: requests per instance",
        )
        up = sorted((step.above_rps, step.change) for step in steps if step.above_rps is not None)
        down = sorted((step.below_rps, step.change) for step in steps if step.below_rps is not None)
        for way, metric, bounds, minutes in (
            ("Out", per_instance, up, STEP_MINUTES_ABOVE),
            ("In", zeroed, down[::-1], STEP_MINUTES_BELOW),
        ):
            if not bounds:
                continue
            first = bounds[0][0]
            word, comparison = (
                ("above", Comparison.GREATER_THAN_OR_EQUAL_TO_THRESHOLD)
                if way == "Out"
                else ("below", Comparison.LESS_THAN_OR_EQUAL_TO_THRESHOLD)
            )
            _step_policy(
                self,
                policy_id=way,
                alarm_id=f"{way}Alarm",
                target=target,
                cooldown=cooldown,
                adjustments=_adjustments(bounds, metric.period_seconds, upward=way == "Out"),
                name=f"{endpoint.name}-{variant}-steps-{way.lower()}",
                description=f"Scales {endpoint.name}, variant {variant}: {word} {first:g} requests/s "
                f"and instance for {minutes} minutes on end. It tells nobody.",
                metric=metric,
                threshold=first * metric.period_seconds,
                comparison=comparison,
                minutes=minutes,
                missing=cloudwatch.TreatMissingData.NOT_BREACHING,
            )


class ScaleFromZero(Construct):
    """Adds the first instance: with none, there is no backlog per instance that could be tracked.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html (scale up
    from zero for new requests)
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: ModelEndpoint,
        variant: str,
        target: autoscaling.ScalableTarget,
        cooldown: cdk.Duration,
    ) -> None:
        super().__init__(scope, construct_id)
        _step_policy(
            self,
            policy_id="Out",
            alarm_id="Alarm",
            target=target,
            cooldown=cooldown,
            adjustments=[(1, 0, None)],
            name=f"{endpoint.name}-{variant}-wake-up",
            description=f"Starts the first instance of {endpoint.name}: a request waits and "
            "there is none. It tells nobody.",
            metric=endpoint.metrics.queued("HasBacklogWithoutCapacity", "Average"),
            threshold=1,
            comparison=Comparison.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            minutes=MINUTES_WAITING,
            missing=cloudwatch.TreatMissingData.MISSING,
        )


def _adjustments(
    bounds: Sequence[tuple[float, int]], period_seconds: int, *, upward: bool
) -> Adjustments:
    """Each step reaches to the next bound; the last one is open. SageMaker counts requests by the period."""
    first = bounds[0][0]
    ends = [(bound - first) * period_seconds for bound, _ in bounds[1:]]
    for (bound, change), end in zip(bounds, [*ends, None], strict=True):
        begin = (bound - first) * period_seconds
        yield (change, begin, end) if upward else (change, end, begin)


def _step_policy(
    scope: Construct,
    *,
    policy_id: str,
    alarm_id: str,
    target: autoscaling.ScalableTarget,
    cooldown: cdk.Duration,
    adjustments: Adjustments,
    name: str,
    description: str,
    metric: Metric,
    threshold: float,
    comparison: cloudwatch.ComparisonOperator,
    minutes: int,
    missing: cloudwatch.TreatMissingData,
) -> None:
    """A policy, and the alarm that triggers it after so many consecutive minutes."""
    periods = math.ceil(SECONDS_PER_MINUTE * minutes / metric.period_seconds)
    action = autoscaling.StepScalingAction(
        scope,
        policy_id,
        scaling_target=target,
        adjustment_type=autoscaling.AdjustmentType.CHANGE_IN_CAPACITY,
        cooldown=cooldown,
        metric_aggregation_type=autoscaling.MetricAggregationType.AVERAGE,
    )
    for change, lower, upper in adjustments:
        action.add_adjustment(adjustment=change, lower_bound=lower, upper_bound=upper)
    alarm = cloudwatch.Alarm(
        scope,
        alarm_id,
        alarm_name=name,
        alarm_description=description,
        metric=metric.for_cdk,
        threshold=threshold,
        comparison_operator=comparison,
        evaluation_periods=periods,
        datapoints_to_alarm=periods,
        treat_missing_data=missing,
    )
    alarm.add_alarm_action(actions.ApplicationScalingAction(action))
