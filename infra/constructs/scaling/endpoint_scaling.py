"""Application Auto Scaling of a variant: target tracking, steps, and schedules."""

import re
from enum import Enum
from typing import TypeVar

import aws_cdk as cdk
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.constructs.endpoint.endpoint_base import OperatedEndpoint
from infra.constructs.endpoint.inference_component import InferenceComponent
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

Member = TypeVar("Member", bound=Enum)
# https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html
MINUTES_WAITING = 2


def keep_scaled_capacity(resource: sagemaker.CfnEndpoint, *, scaled: bool) -> None:
    """Make updates of an endpoint keep the number of instances that scaling has reached.

    Weights are replaced: otherwise the deployment of a new split would succeed and change nothing.
    """
    replaced = ["DesiredWeight"] if scaled else ["DesiredWeight", "DesiredInstanceCount"]
    resource.retain_all_variant_properties = True
    resource.exclude_retained_variant_properties = [
        sagemaker.CfnEndpoint.VariantPropertyProperty(variant_property_type=name)
        for name in replaced
    ]


def find_member(kind: type[Member], value: str) -> Member:
    """Return the member of CDK's enum for CloudFormation's value: NOT_BREACHING for notBreaching."""
    words = re.sub("(?<=[a-z])(?=[A-Z])", "_", value.replace("SageMaker", "Sagemaker"))
    return kind[words.upper()]


class EndpointScaling(Construct):
    """The scalable target and policies of a variant's instances or provisioned concurrency, or of copies.

    Copies with sleep_after_minutes scale to zero, and restart when a request finds none.
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
        """Create the target and the policies. `variant` is the name of a variant or component."""
        super().__init__(scope, construct_id)
        endpoint.tables[f"variants.{variant}.scaling"] = self, scaling
        self._endpoint, self._variant = endpoint, variant
        scaled, copies = endpoint.find_variant(variant), endpoint.components.get(variant)
        waits = choose_cooldowns(scaling, scaled.start_seconds)
        least, most = (copies or scaled).table.capacity
        self.target = self._create_target(copies, least, most)
        """CDK's scalable target, for further policies and schedules."""
        for number, action in enumerate(scaling.schedule):
            self.target.scale_on_schedule(
                f"Scheduled{number}",
                schedule=autoscaling.Schedule.expression(action.at),
                time_zone=cdk.TimeZone.of(action.timezone),
                min_capacity=action.at_least,
                max_capacity=action.at_most,
            )
        if copies is not None and (target := self.target.node.default_child):
            target.node.add_dependency(copies.resource)
        for policy in build_tracking_policies(scaling, waits, copies=copies is not None):
            self._add_tracking_policy(policy)
        if scaling.steps:
            self._add_step_policies(scaling, waits)
        if copies is not None and copies.table.sleep_after_minutes:
            self._add_sleep_policies(copies.name, copies.table.sleep_after_minutes)
        if endpoint.kind.queued and least == 0:
            self._add_wake_up_policy(waits)

    def _create_target(
        self, copies: InferenceComponent | None, least: int, most: int
    ) -> autoscaling.ScalableTarget:
        endpoint, stack = self._endpoint, cdk.Stack.of(self)
        # The endpoint's attribute and not the literal: CloudFormation then waits for it.
        resource = f"endpoint/{endpoint.resource.attr_endpoint_name}/variant/{self._variant}"
        if copies is not None:
            resource = f"inference-component/{copies.name}"
        account = f"arn:{stack.partition}:iam::{cdk.Aws.ACCOUNT_ID}"
        role = f"{account}:role/aws-service-role/{LINKED_ROLE}"
        return autoscaling.ScalableTarget(
            self,
            "Target",
            service_namespace=autoscaling.ServiceNamespace.SAGEMAKER,
            resource_id=resource,
            scalable_dimension=endpoint.kind.scalable_dimension,
            min_capacity=least,
            max_capacity=most,
            role=iam.Role.from_role_arn(self, "ServiceLinkedRole", role, mutable=False),
        )

    def _add_tracking_policy(self, policy: TrackingPolicy) -> None:
        queue = predefined = None
        if policy.metric is None:
            queue = self._endpoint.watched.build_metric(BACKLOG, None, "Average")
        else:
            predefined = find_member(autoscaling.PredefinedMetric, policy.metric)
        self.target.scale_to_track_metric(
            policy.name,
            target_value=policy.value,
            predefined_metric=predefined,
            custom_metric=queue,
            scale_in_cooldown=create_period(policy.waits.in_seconds),
            scale_out_cooldown=create_period(policy.waits.out_seconds),
        )

    def _add_wake_up_policy(self, waits: Cooldowns) -> None:
        """Add the policy that starts the first instance.

        Without instances there is no backlog per instance that could be tracked.
        https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html
        """
        name = self._endpoint.name
        metric = self._endpoint.watched.build_metric("HasBacklogWithoutCapacity", None, "Average")
        first = StepPolicy(
            name="Out",
            cooldown_seconds=waits.out_seconds,
            adjustments=[Adjustment(change=1, lower=0)],
            above=True,
            threshold=1,
            minutes=MINUTES_WAITING,
            period_seconds=int(metric.period.to_seconds()),
            missing="missing",
            alarm_ending="wake-up",
        )
        purpose = f"Starts the first instance of {name}: a request waits and no instance runs."
        owner = Construct(self, "WakeUp")
        self._add_policy_with_alarm(owner, first, metric, purpose, named="Alarm")

    def _add_sleep_policies(self, component: str, minutes: int) -> None:
        """Add the policies that end all copies and start the first one again after a request."""
        purposes = {
            "Wake": f"Starts the first copy of {component}: a request found no copy.",
            "Asleep": f"Removes the copies of {component}: no request for {minutes} minutes.",
        }
        owner = Construct(self, "Sleep")
        for each in build_sleep_policies(minutes):
            metric = self._endpoint.watched.build_metric(each.metric, self._variant, "Sum")
            self._add_policy_with_alarm(owner, each, metric, purposes[each.name])

    def _add_step_policies(self, scaling: Scaling, waits: Cooldowns) -> None:
        variant = self._variant
        requests = self._endpoint.watched.build_metric("InvocationsPerInstance", variant, "Sum")
        # Without traffic there is no data; filled with zero it is below every bound.
        label = f"{variant}: requests per instance"
        zeroed = build_expression("FILL(requests, 0)", {"requests": requests}, label)
        period_seconds, owner = int(requests.period.to_seconds()), Construct(self, "Steps")
        for steps in build_step_policies(scaling, waits, period_seconds=period_seconds):
            side, metric = ("above", requests) if steps.above else ("below", zeroed)
            purpose = (
                f"Scales {self._endpoint.name}, variant {variant}: {side} {steps.bound_rps:g} "
                f"requests/s per instance for {steps.minutes} minutes in a row."
            )
            self._add_policy_with_alarm(owner, steps, metric, purpose)

    def _add_policy_with_alarm(
        self,
        scope: Construct,
        policy: StepPolicy,
        metric: AlarmMetric,
        purpose: str,
        *,
        named: str = "",
    ) -> None:
        """Add a step policy and the alarm that triggers it.

        CDK's `StepScalingPolicy` doesn't allow naming the alarm.
        """
        condition, stepped = policy.alarm, policy.policy["StepScalingPolicyConfiguration"]
        action = autoscaling.StepScalingAction(
            scope,
            policy.name,
            scaling_target=self.target,
            adjustment_type=find_member(autoscaling.AdjustmentType, stepped["AdjustmentType"]),
            cooldown=create_period(policy.cooldown_seconds),
            metric_aggregation_type=autoscaling.MetricAggregationType.AVERAGE,
        )
        for step in policy.adjustments:
            change, lower, upper = step.change, step.lower, step.upper
            action.add_adjustment(adjustment=change, lower_bound=lower, upper_bound=upper)
        operator = find_member(cloudwatch.ComparisonOperator, condition["ComparisonOperator"])
        alarm = cloudwatch.Alarm(
            scope,
            named or f"{policy.name}Alarm",
            alarm_name=f"{self._endpoint.name}-{self._variant}-{policy.alarm_ending}",
            alarm_description=f"{purpose} It notifies nobody.",
            metric=metric,
            threshold=policy.threshold,
            comparison_operator=operator,
            evaluation_periods=policy.periods,
            datapoints_to_alarm=policy.periods,
            treat_missing_data=find_member(cloudwatch.TreatMissingData, policy.missing),
        )
        alarm.add_alarm_action(actions.ApplicationScalingAction(action))
