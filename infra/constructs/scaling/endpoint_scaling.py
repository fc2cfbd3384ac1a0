"""Application Auto Scaling of a variant: target tracking, steps and schedules."""

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.constructs.endpoint.endpoint_base import OperatedEndpoint
from infra.constructs.monitoring.measured import Computed, Metric
from infra.parameters.scaling import Scaling
from infra.parameters.scaling_properties import (
    Properties,
    scalable_target,
    sleep_policies,
    step_alarm,
    step_policies,
    step_policy,
    tracking,
    waits_of,
)
from infra.policy.account_names import LINKED_ROLE
from infra.policy.scaling import Cooldowns

# https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html
MINUTES_WAITING = 2


class EndpointScaling(Construct):
    """The scalable target and policies of [variants.NAME.scaling] for one variant, or for its copies.

    It scales the number of instances, of copies, or a serverless variant's provisioned concurrency. Copies
    with sleep_after_minutes go to zero by it, and come back when a request finds none.
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
        scaled = endpoint.scale(variant)
        endpoint.tables[f"variants.{variant}.scaling"] = self, scaling
        copies = endpoint.components.get(variant)
        waits = waits_of(scaling, scaled.start_seconds)
        # The endpoint's attribute and not the literal: CloudFormation then waits for it.
        resource = f"endpoint/{endpoint.resource.attr_endpoint_name}/variant/{variant}"
        capacity = scaled.capacity
        if copies is not None:
            capacity = copies.capacity
            resource = f"inference-component/{endpoint.components[variant].name}"
        dimension = endpoint.kind.scalable_dimension
        properties = scalable_target(resource, dimension, capacity, scaling)
        role = f"arn:{cdk.Stack.of(self).partition}:iam::{cdk.Aws.ACCOUNT_ID}:role/aws-service-role"
        properties["RoleARN"] = f"{role}/{LINKED_ROLE}"
        target = Construct(self, "Target")
        self.target = cdk.CfnResource(
            target,
            "Resource",
            type="AWS::ApplicationAutoScaling::ScalableTarget",
            properties=dict(sorted(properties.items())),
        )
        if copies is not None:
            self.target.node.add_dependency(endpoint.components[variant].resource)
        tracked = tracking(scaling, waits, endpoint.name, copies=copies is not None)
        for name, policy in tracked.items():
            self._policy(Construct(target, name), policy)
        if scaling.steps:
            self._step(endpoint, variant, scaling, waits)
        if copies is not None and copies.sleep_after_minutes:
            self._sleep(endpoint, variant, copies.sleep_after_minutes)
        if endpoint.kind.queued and capacity[0] == 0:
            # With no instance there is no backlog per instance that could be tracked (the page above).
            waiting = endpoint.metrics.of_variant("HasBacklogWithoutCapacity", None, "Average")
            first = {"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}
            operator, period = "GreaterThanOrEqualToThreshold", waiting.period_seconds
            self._alarmed_policy(
                "WakeUp",
                "Out",
                step_policy(waits, [first]),
                step_alarm(operator, 1, MINUTES_WAITING, period, missing="missing"),
                metric=waiting,
                name=f"{endpoint.name}-{variant}-wake-up",
                description=f"Starts the first instance of {endpoint.name}: a request waits and "
                "there is none. It tells nobody.",
            )

    def _sleep(self, endpoint: OperatedEndpoint, variant: str, minutes: int) -> None:
        """No copy after minutes without a request, and the first one after a request that found none."""
        component = endpoint.components[variant].name
        words = {
            "Wake": f"Starts the first copy of {component}: a request found none.",
            "Asleep": f"Ends the copies of {component}: no request for {minutes} minutes.",
        }
        metrics = {
            "Wake": endpoint.metrics.of_variant("NoCapacityInvocationFailures", variant, "Sum"),
            "Asleep": endpoint.metrics.invocations_per_instance(variant),
        }
        for each in sleep_policies(minutes):
            self._alarmed_policy(
                "Sleep",
                each.name,
                each.policy,
                each.alarm,
                metric=metrics[each.name],
                name=f"{endpoint.name}-{variant}-{each.alarm_ending}",
                description=f"{words[each.name]} It tells nobody.",
            )

    def _step(
        self, endpoint: OperatedEndpoint, variant: str, scaling: Scaling, waits: Cooldowns
    ) -> None:
        per_instance = endpoint.metrics.invocations_per_instance(variant)
        # Without traffic there is no data; filled with zero it is below every bound.
        zeroed = Computed(
            expression="FILL(requests, 0)",
            using={"requests": per_instance},
            label=f"{variant}: requests per instance",
        )
        for steps in step_policies(scaling, waits, period_seconds=per_instance.period_seconds):
            out = steps.way == "Out"
            self._alarmed_policy(
                "Steps",
                steps.way,
                steps.policy,
                steps.alarm,
                metric=per_instance if out else zeroed,
                name=f"{endpoint.name}-{variant}-steps-{steps.way.lower()}",
                description=f"Scales {endpoint.name}, variant {variant}: "
                f"{'above' if out else 'below'} {steps.bound_rps:g} requests/s and instance for "
                f"{steps.minutes} minutes on end. It tells nobody.",
            )

    def _policy(self, scope: Construct, policy: Properties) -> cdk.CfnResource:
        return cdk.CfnResource(
            scope,
            "Resource",
            type="AWS::ApplicationAutoScaling::ScalingPolicy",
            properties={
                "PolicyName": cdk.Names.unique_id(scope),
                "PolicyType": policy["PolicyType"],
                "ScalingTargetId": self.target.ref,
                **policy,
            },
        )

    def _alarmed_policy(
        self,
        owner_id: str,
        policy_id: str,
        policy: Properties,
        alarm: Properties,
        *,
        metric: Metric,
        name: str,
        description: str,
    ) -> None:
        """Adds a policy and the alarm that triggers it."""
        child = self.node.try_find_child(owner_id)
        owner = child if isinstance(child, Construct) else Construct(self, owner_id)
        resource = self._policy(Construct(owner, policy_id), policy)
        cloudwatch.CfnAlarm(
            Construct(owner, "Alarm" if owner_id == "WakeUp" else f"{policy_id}Alarm"),
            "Resource",
            alarm_name=name,
            alarm_description=description,
            alarm_actions=[resource.ref],
            comparison_operator=alarm["ComparisonOperator"],
            threshold=alarm["Threshold"],
            evaluation_periods=alarm["EvaluationPeriods"],
            datapoints_to_alarm=alarm["DatapointsToAlarm"],
            treat_missing_data=alarm["TreatMissingData"],
            **metric.in_alarm,
        )
