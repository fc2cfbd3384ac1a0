"""Application Auto Scaling of a variant: target tracking, steps and schedules."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.endpoint.model_endpoint import ModelEndpoint
from infra.constructs.scaling.step_scaling import ScaleFromZero, ScalingSteps
from infra.parameters.scaling import Scaling, Scheduled
from infra.policy.scaling import cooldowns, invocations_per_instance_per_minute

SERVICE = "sagemaker.application-autoscaling.amazonaws.com"
SERVICE_ROLE = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
Metric = autoscaling.PredefinedMetric


class EndpointScaling(Construct):
    """The scalable target and policies of [variants.NAME.scaling] for one variant.

    It scales the number of instances, or a serverless variant's provisioned concurrency.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: ModelEndpoint,
        variant: str,
        scaling: Scaling,
    ) -> None:
        super().__init__(scope, construct_id)
        (scaled,) = [each for each in endpoint.variants if each.name == variant]
        least, most = scaled.capacity
        waits = cooldowns(
            out_seconds=scaling.scale_out_cooldown_seconds,
            in_seconds=scaling.scale_in_cooldown_seconds,
            start_seconds=scaled.start_seconds,
        )
        self._out = cdk.Duration.seconds(waits.out_seconds)
        self._in = cdk.Duration.seconds(waits.in_seconds)
        role_arn = cdk.Stack.of(self).format_arn(
            service="iam",
            region="",
            account=cdk.Aws.ACCOUNT_ID,
            resource="role",
            resource_name=f"aws-service-role/{SERVICE}/{SERVICE_ROLE}",
        )
        self.target = autoscaling.ScalableTarget(
            self,
            "Target",
            service_namespace=autoscaling.ServiceNamespace.SAGEMAKER,
            # The endpoint's attribute and not the literal: CloudFormation then waits for it.
            resource_id=f"endpoint/{endpoint.resource.attr_endpoint_name}/variant/{variant}",
            scalable_dimension=endpoint.kind.scalable_dimension,
            min_capacity=least,
            max_capacity=most,
            # The service-linked role, named: CDK would otherwise make a role for every target.
            role=iam.Role.from_role_arn(self, "ServiceLinkedRole", role_arn),
        )
        self._track(endpoint, scaling)
        self._schedule(scaling.schedule)
        if scaling.steps:
            ScalingSteps(
                self,
                "Steps",
                endpoint=endpoint,
                variant=variant,
                target=self.target,
                steps=scaling.steps,
                cooldown=self._out,
            )
        if endpoint.kind.queued and least == 0:
            ScaleFromZero(
                self,
                "WakeUp",
                endpoint=endpoint,
                variant=variant,
                target=self.target,
                cooldown=self._out,
            )

    def _track(self, endpoint: ModelEndpoint, scaling: Scaling) -> None:
        safety = scaling.safety_factor
        if scaling.max_rps_per_instance is not None:
            target = invocations_per_instance_per_minute(
                max_rps_per_instance=scaling.max_rps_per_instance, safety_factor=safety
            )
            self._follow("Tracking", target, Metric.SAGEMAKER_VARIANT_INVOCATIONS_PER_INSTANCE)
        if scaling.max_concurrency_per_instance is not None:
            # The metric is published every 10 s instead of every minute.
            self._follow(
                "Concurrency",
                scaling.max_concurrency_per_instance * safety,
                Metric.SAGEMAKER_VARIANT_CONCURRENT_REQUESTS_PER_MODEL_HIGH_RESOLUTION,
            )
        if scaling.provisioned_use_percent is not None:
            # The target is a share, 0 to 1: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints-autoscale.html
            self._follow(
                "Provisioned",
                scaling.provisioned_use_percent / 100,
                Metric.SAGEMAKER_VARIANT_PROVISIONED_CONCURRENCY_UTILIZATION,
            )
        if scaling.max_backlog_per_instance is not None:
            self.target.scale_to_track_metric(
                "Backlog",
                # AWS publishes the metric for the endpoint, without the dimension of a variant.
                custom_metric=endpoint.metrics.queued(
                    "ApproximateBacklogSizePerInstance", "Average"
                ).for_cdk,
                target_value=scaling.max_backlog_per_instance * safety,
                scale_out_cooldown=self._out,
                scale_in_cooldown=self._in,
            )

    def _follow(
        self, construct_id: str, target_value: float, metric: autoscaling.PredefinedMetric
    ) -> None:
        self.target.scale_to_track_metric(
            construct_id,
            predefined_metric=metric,
            target_value=target_value,
            scale_out_cooldown=self._out,
            scale_in_cooldown=self._in,
        )

    def _schedule(self, schedule: Sequence[Scheduled]) -> None:
        for number, scheduled in enumerate(schedule):
            self.target.scale_on_schedule(
                f"Scheduled{number}",
                schedule=autoscaling.Schedule.expression(scheduled.at),
                time_zone=cdk.TimeZone.of(scheduled.timezone),
                min_capacity=scheduled.at_least,
                max_capacity=scheduled.at_most,
            )
