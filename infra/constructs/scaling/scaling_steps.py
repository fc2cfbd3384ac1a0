"""Several instances at once where traffic jumps or falls."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from constructs import Construct

from infra.constructs.endpoint.model_endpoint import ModelEndpoint
from infra.constructs.monitoring.measured import Computed, Metric
from infra.parameters.scaling import Step

SECONDS_PER_MINUTE = 60
# As target tracking has them: quick to add, slow to remove.
# https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking.html
MINUTES_ABOVE = 3
MINUTES_BELOW = 15


class ScalingSteps(Construct):
    """A policy and its alarm for the steps up, and one each for those down."""

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
        self._endpoint, self._variant = endpoint, variant
        self._target, self._cooldown = target, cooldown
        above = sorted((one.above_rps, one.change) for one in steps if one.above_rps is not None)
        below = sorted((one.below_rps, one.change) for one in steps if one.below_rps is not None)
        if above:
            self._out(above)
        if below:
            self._in(below[::-1])

    def _out(self, steps: list[tuple[float, int]]) -> None:
        action = self._action("Out")
        first = steps[0][0]
        ends = [bound for bound, _ in steps[1:]]
        for (bound, change), end in zip(steps, [*ends, None], strict=True):
            action.add_adjustment(
                adjustment=change,
                lower_bound=_per_minute(bound - first),
                upper_bound=None if end is None else _per_minute(end - first),
            )
        self._alarm(
            "OutAlarm",
            f"{self._variant}-steps-out",
            action,
            metric=self._endpoint.metrics.invocations_per_instance(self._variant),
            threshold=_per_minute(first),
            comparison=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            minutes=MINUTES_ABOVE,
            said=f"above {first:g} requests/s and instance",
        )

    def _in(self, steps: list[tuple[float, int]]) -> None:
        action = self._action("In")
        first = steps[0][0]
        ends = [bound for bound, _ in steps[1:]]
        for (bound, change), end in zip(steps, [*ends, None], strict=True):
            action.add_adjustment(
                adjustment=change,
                upper_bound=_per_minute(bound - first),
                lower_bound=None if end is None else _per_minute(end - first),
            )
        # No traffic is no data: as zero it is below every bound.
        zeroed = Computed(
            expression="FILL(requests, 0)",
            using={"requests": self._endpoint.metrics.invocations_per_instance(self._variant)},
            label=f"{self._variant}: requests per instance",
        )
        self._alarm(
            "InAlarm",
            f"{self._variant}-steps-in",
            action,
            metric=zeroed,
            threshold=_per_minute(first),
            comparison=cloudwatch.ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD,
            minutes=MINUTES_BELOW,
            said=f"below {first:g} requests/s and instance",
        )

    def _action(self, construct_id: str) -> autoscaling.StepScalingAction:
        return autoscaling.StepScalingAction(
            self,
            construct_id,
            scaling_target=self._target,
            adjustment_type=autoscaling.AdjustmentType.CHANGE_IN_CAPACITY,
            cooldown=self._cooldown,
            metric_aggregation_type=autoscaling.MetricAggregationType.AVERAGE,
        )

    def _alarm(
        self,
        construct_id: str,
        name: str,
        action: autoscaling.StepScalingAction,
        *,
        metric: Metric,
        threshold: float,
        comparison: cloudwatch.ComparisonOperator,
        minutes: int,
        said: str,
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            alarm_name=f"{self._endpoint.name}-{name}",
            alarm_description=f"Scales {self._endpoint.name}, variant {self._variant}: {said} for "
            f"{minutes} minutes on end. It tells nobody.",
            metric=metric.for_cdk,
            threshold=threshold,
            comparison_operator=comparison,
            evaluation_periods=minutes,
            datapoints_to_alarm=minutes,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(actions.ApplicationScalingAction(action))


def _per_minute(rps: float) -> float:
    """As SageMaker counts: requests of one instance in one minute."""
    return rps * SECONDS_PER_MINUTE
