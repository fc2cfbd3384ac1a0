"""The first instance of a queue that waits with none."""

import aws_cdk as cdk
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from constructs import Construct

from infra.constructs.endpoint.model_endpoint import ModelEndpoint


class WakeUp(Construct):
    """Without an instance there is no backlog per instance to track: this one sees a request wait.

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
        action = autoscaling.StepScalingAction(
            self,
            "Out",
            scaling_target=target,
            adjustment_type=autoscaling.AdjustmentType.CHANGE_IN_CAPACITY,
            cooldown=cooldown,
            metric_aggregation_type=autoscaling.MetricAggregationType.AVERAGE,
        )
        action.add_adjustment(adjustment=1, lower_bound=0)
        alarm = cloudwatch.Alarm(
            self,
            "Alarm",
            alarm_name=f"{endpoint.name}-{variant}-wake-up",
            alarm_description=f"Starts the first instance of {endpoint.name}: a request waits and "
            "there is none. It tells nobody.",
            metric=endpoint.metrics.queued("HasBacklogWithoutCapacity", "Average").for_cdk,
            threshold=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            # The guide's own: two minutes.
            evaluation_periods=2,
            datapoints_to_alarm=2,
            treat_missing_data=cloudwatch.TreatMissingData.MISSING,
        )
        alarm.add_alarm_action(actions.ApplicationScalingAction(action))
