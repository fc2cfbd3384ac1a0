"""Application Auto Scaling of a variant: target tracking, steps, and schedules."""

import aws_cdk as cdk
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.endpoint.endpoint_base import OperatedEndpoint
from infra.constructs.monitoring.watched_endpoint import (
    AlarmMetric,
    build_expression,
    create_period,
)
from infra.parameters.scaling import Scaling
from infra.parameters.scaling_properties import (
    BACKLOG,
    Adjustment,
    StepPolicy,
    TrackingPolicy,
    build_sleep_policies,
    build_step_policies,
    build_tracking_policies,
    choose_cooldowns,
)
from infra.policy.derived_settings import Cooldowns
from infra.policy.execution_policy import LINKED_ROLE

Metric = autoscaling.PredefinedMetric
PREDEFINED = {
    "SageMakerVariantInvocationsPerInstance": Metric.SAGEMAKER_VARIANT_INVOCATIONS_PER_INSTANCE,
    "SageMakerVariantConcurrentRequestsPerModelHighResolution": (
        Metric.SAGEMAKER_VARIANT_CONCURRENT_REQUESTS_PER_MODEL_HIGH_RESOLUTION
    ),
    "SageMakerVariantProvisionedConcurrencyUtilization": (
        Metric.SAGEMAKER_VARIANT_PROVISIONED_CONCURRENCY_UTILIZATION
    ),
    "SageMakerInferenceComponentInvocationsPerCopy": (
        Metric.SAGEMAKER_INFERENCE_COMPONENT_INVOCATIONS_PER_COPY
    ),
    "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution": (
        Metric.SAGEMAKER_INFERENCE_COMPONENT_CONCURRENT_REQUESTS_PER_COPY_HIGH_RESOLUTION
    ),
}
COMPARISONS = {
    True: cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
    False: cloudwatch.ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD,
}
MISSING = {
    "missing": cloudwatch.TreatMissingData.MISSING,
    "notBreaching": cloudwatch.TreatMissingData.NOT_BREACHING,
}
# https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html
MINUTES_WAITING = 2


class EndpointScaling(Construct):
    """The scalable target and policies of [variants.NAME.scaling] for a variant or its copies.

    It scales the number of instances, of copies, or a serverless variant's provisioned
    concurrency. Copies with sleep_after_minutes scale to zero, and restart when a request finds
    none.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: OperatedEndpoint,
        variant: str,
        scaling: Scaling,
    ) -> None:
        """endpoint: The endpoint.
        variant: Name of one of its variants, or of a component; its minimum and maximum are the bounds.
        scaling: Target tracking, steps and schedules.
        """
        super().__init__(scope, construct_id)
        scaled = endpoint.find_variant(variant)
        endpoint.tables[f"variants.{variant}.scaling"] = self, scaling
        copies = endpoint.components.get(variant)
        waits = choose_cooldowns(scaling, scaled.start_seconds)
        # The endpoint's attribute and not the literal: CloudFormation then waits for it.
        resource = f"endpoint/{endpoint.resource.attr_endpoint_name}/variant/{variant}"
        capacity = scaled.capacity
        if copies is not None:
            capacity = copies.capacity
            resource = f"inference-component/{endpoint.components[variant].name}"
        stack = cdk.Stack.of(self)
        role = (
            f"arn:{stack.partition}:iam::{cdk.Aws.ACCOUNT_ID}:role/aws-service-role/{LINKED_ROLE}"
        )
        self.target = autoscaling.ScalableTarget(
            self,
            "Target",
            service_namespace=autoscaling.ServiceNamespace.SAGEMAKER,
            resource_id=resource,
            scalable_dimension=endpoint.kind.scalable_dimension,
            min_capacity=capacity[0],
            max_capacity=capacity[1],
            role=iam.Role.from_role_arn(self, "ServiceLinkedRole", role, mutable=False),
        )
        """CDK's scalable target, for further policies and schedules."""
        self._add_schedules(scaling)
        if copies is not None and (target := self.target.node.default_child):
            target.node.add_dependency(endpoint.components[variant].resource)
        for policy in build_tracking_policies(scaling, waits, copies=copies is not None):
            self._add_tracking_policy(endpoint, policy)
        if scaling.steps:
            self._add_step_policies(endpoint, variant, scaling, waits)
        if copies is not None and copies.sleep_after_minutes:
            self._add_sleep_policies(endpoint, variant, copies.sleep_after_minutes)
        if endpoint.kind.queued and capacity[0] == 0:
            self._add_wake_up_policy(endpoint, variant, waits)

    def _add_schedules(self, scaling: Scaling) -> None:
        for number, action in enumerate(scaling.schedule):
            self.target.scale_on_schedule(
                f"Scheduled{number}",
                schedule=autoscaling.Schedule.expression(action.at),
                time_zone=cdk.TimeZone.of(action.timezone),
                min_capacity=action.at_least,
                max_capacity=action.at_most,
            )

    def _add_tracking_policy(self, endpoint: OperatedEndpoint, policy: TrackingPolicy) -> None:
        queue = None
        if policy.metric is None:
            queue = endpoint.metrics.build_metric(BACKLOG, None, "Average")
        self.target.scale_to_track_metric(
            policy.name,
            target_value=policy.value,
            predefined_metric=PREDEFINED[policy.metric] if policy.metric else None,
            custom_metric=queue,
            scale_in_cooldown=create_period(policy.waits.in_seconds),
            scale_out_cooldown=create_period(policy.waits.out_seconds),
        )

    def _add_wake_up_policy(
        self, endpoint: OperatedEndpoint, variant: str, waits: Cooldowns
    ) -> None:
        """Add the policy that starts the first instance.

        Without instances there is no backlog per instance that could be tracked.
        https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html
        """
        waiting = endpoint.metrics.build_metric("HasBacklogWithoutCapacity", None, "Average")
        first = StepPolicy(
            name="Out",
            cooldown_seconds=waits.out_seconds,
            adjustments=[Adjustment(change=1, lower=0)],
            above=True,
            threshold=1,
            minutes=MINUTES_WAITING,
            period_seconds=int(waiting.period.to_seconds()),
            missing="missing",
        )
        self._add_policy_with_alarm(
            Construct(self, "WakeUp"),
            first,
            "Alarm",
            metric=waiting,
            name=f"{endpoint.name}-{variant}-wake-up",
            description=f"Starts the first instance of {endpoint.name}: a request waits and "
            "there is none. It notifies nobody.",
        )

    def _add_sleep_policies(self, endpoint: OperatedEndpoint, variant: str, minutes: int) -> None:
        """Add the policies that scale copies to zero and restart the first one.

        The copies stop after `minutes` without a request. The first one restarts after a request
        that found none.
        """
        component = endpoint.components[variant].name
        words = {
            "Wake": f"Starts the first copy of {component}: a request found none.",
            "Asleep": f"Ends the copies of {component}: no request for {minutes} minutes.",
        }
        metrics = {
            "Wake": endpoint.metrics.build_metric("NoCapacityInvocationFailures", variant, "Sum"),
            "Asleep": endpoint.metrics.build_per_instance_metric(variant),
        }
        owner = Construct(self, "Sleep")
        for each in build_sleep_policies(minutes):
            self._add_policy_with_alarm(
                owner,
                each,
                metric=metrics[each.name],
                name=f"{endpoint.name}-{variant}-{each.alarm_ending}",
                description=f"{words[each.name]} It notifies nobody.",
            )

    def _add_step_policies(
        self, endpoint: OperatedEndpoint, variant: str, scaling: Scaling, waits: Cooldowns
    ) -> None:
        per_instance = endpoint.metrics.build_per_instance_metric(variant)
        # Without traffic there is no data; filled with zero it is below every bound.
        label = f"{variant}: requests per instance"
        zeroed = build_expression("FILL(requests, 0)", {"requests": per_instance}, label)
        period_seconds, owner = int(per_instance.period.to_seconds()), Construct(self, "Steps")
        for steps in build_step_policies(scaling, waits, period_seconds=period_seconds):
            self._add_policy_with_alarm(
                owner,
                steps,
                metric=per_instance if steps.above else zeroed,
                name=f"{endpoint.name}-{variant}-steps-{steps.name.lower()}",
                description=f"Scales {endpoint.name}, variant {variant}: "
                f"{'above' if steps.above else 'below'} {steps.bound_rps:g} requests/s and instance for "
                f"{steps.minutes} minutes in a row. It notifies nobody.",
            )

    def _add_policy_with_alarm(
        self,
        scope: Construct,
        policy: StepPolicy,
        alarm_id: str | None = None,
        *,
        metric: AlarmMetric,
        name: str,
        description: str,
    ) -> None:
        """Add a step policy and the alarm that triggers it.

        CDK's `StepScalingPolicy` doesn't allow naming the alarm.
        """
        kinds = autoscaling.AdjustmentType
        action = autoscaling.StepScalingAction(
            scope,
            policy.name,
            scaling_target=self.target,
            adjustment_type=kinds.EXACT_CAPACITY if policy.exact else kinds.CHANGE_IN_CAPACITY,
            cooldown=create_period(policy.cooldown_seconds),
            metric_aggregation_type=autoscaling.MetricAggregationType.AVERAGE,
        )
        for step in policy.adjustments:
            action.add_adjustment(
                adjustment=step.change, lower_bound=step.lower, upper_bound=step.upper
            )
        alarm = cloudwatch.Alarm(
            scope,
            alarm_id or f"{policy.name}Alarm",
            alarm_name=name,
            alarm_description=description,
            metric=metric,
            threshold=policy.threshold,
            comparison_operator=COMPARISONS[policy.above],
            evaluation_periods=policy.periods,
            datapoints_to_alarm=policy.periods,
            treat_missing_data=MISSING[policy.missing],
        )
        alarm.add_alarm_action(actions.ApplicationScalingAction(action))
