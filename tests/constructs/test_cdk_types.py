"""Topics, alarms, metrics, and scalable targets are CDK's own, and so fit what an app has of CDK."""

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns

from servable.constructs import (
    Alarms,
    AlarmTopic,
    EndpointAlarms,
    EndpointDashboard,
    EndpointEvents,
    NotificationKey,
)
from tests.constructs.conftest import Own, Synthesised, own_stack

ON_CALL = "arn:aws:sns:eu-west-1:111111111111:on-call"


def topic_of(kind: str, stack: cdk.Stack) -> sns.ITopic:
    if kind == "imported":
        return sns.Topic.from_topic_arn(stack, "OnCall", ON_CALL)
    if kind == "of CDK":
        return sns.Topic(stack, "OnCall")
    key = NotificationKey(stack, "Key", given_arn=None).key
    return AlarmTopic(stack, "OnCall", notify=["a@example.com"], key=key)


@pytest.mark.parametrize("kind", ["imported", "of CDK", "AlarmTopic"])
def test_any_topic_takes_alarms_and_events(kind: str) -> None:
    own = Own.with_variant()
    topic = topic_of(kind, own.stack)
    EndpointAlarms(own.stack, "Alarms", endpoint=own.endpoint, alarms=Alarms(), inform=topic)
    EndpointEvents(own.stack, "Events", endpoint_name="search", inform=topic)
    found = own.synthesised
    sent: list[Any] = []
    for alarm in (
        *found.all("AWS::CloudWatch::Alarm"),
        found.one("AWS::CloudWatch::CompositeAlarm"),
    ):
        assert alarm["AlarmActions"] == alarm["OKActions"]
        sent += alarm["AlarmActions"]
    for rule in found.all("AWS::Events::Rule"):
        sent += [target["Arn"] for target in rule["Targets"]]
    assert len(sent) > 4
    assert sent == [own.stack.resolve(topic.topic_arn)] * len(sent)


def test_an_alarm_topic_is_a_topic_of_cdk() -> None:
    stack = own_stack()
    key = NotificationKey(stack, "Key", given_arn=None).key
    topic = AlarmTopic(stack, "Alarms", notify=["a@example.com", "https://b.example"], key=key)
    assert isinstance(topic, sns.Topic)
    found = Synthesised.of(stack)
    assert found.ids("AWS::SNS::Topic") == ["AlarmsTopic3A2DFEBA"]
    assert len(found.all("AWS::SNS::Subscription")) == 2


def test_alarms_fit_composite_alarms_actions_and_dashboards_of_cdk() -> None:
    own = Own.with_variant()
    topic, inform = topic_of("imported", own.stack), sns.Topic(own.stack, "Topic")
    settings = Alarms(p99_latency_ms=80)
    alarms = EndpointAlarms(
        own.stack, "Alarms", endpoint=own.endpoint, alarms=settings, inform=inform
    )
    EndpointDashboard(own.stack, "Dashboard", endpoint=own.endpoint, alarms=alarms)
    latency = alarms.of("primary", "p99-latency")
    assert latency is not None
    latency.add_insufficient_data_action(actions.SnsAction(topic))
    alarms.objective.add_alarm_action(actions.SnsAction(topic))
    both = cloudwatch.AlarmRule.all_of(latency, alarms.objective)
    cloudwatch.CompositeAlarm(own.stack, "Both", alarm_rule=both)
    cloudwatch.Dashboard(
        own.stack,
        "Wall",
        widgets=[
            [cloudwatch.AlarmWidget(title="p99", alarm=latency)],
            [cloudwatch.GraphWidget(left=[latency.metric, own.endpoint.metric_invocations()])],
        ],
    )
    found = own.synthesised
    made = {each["AlarmName"]: each for each in found.all("AWS::CloudWatch::Alarm")}
    assert made["search-primary-p99-latency"]["InsufficientDataActions"] == [ON_CALL]
    made = {each["AlarmName"]: each for each in found.all("AWS::CloudWatch::CompositeAlarm")}
    assert made["search-objective"]["AlarmActions"][1] == ON_CALL


def test_scaling_is_a_scalable_target_of_cdk_with_the_service_linked_role() -> None:
    own = Own()
    variant = own.add(min_instances=2, max_instances=6)
    variant.auto_scale(max_rps_per_instance=100)
    own.endpoint.add_alarms(p99_latency_ms=80, notify=sns.Topic(own.stack, "Topic"))
    assert own.endpoint.alarms is not None  # creates the constructs
    target = variant.target
    assert isinstance(target, autoscaling.ScalableTarget)
    target.scale_on_schedule(
        "Night", schedule=autoscaling.Schedule.expression("cron(0 22 * * ? *)"), max_capacity=3
    )
    target.scale_to_track_metric(
        "Cpu", target_value=200, custom_metric=own.endpoint.metric_cpu_utilization()
    )
    found = own.synthesised
    properties = found.one("AWS::ApplicationAutoScaling::ScalableTarget")
    assert [each["ScheduledActionName"] for each in properties["ScheduledActions"]] == ["Night"]
    role = "".join(map(str, properties["RoleARN"]["Fn::Join"][1]))
    assert role.endswith("AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint")
    assert len(found.all("AWS::IAM::Role")) == 1  # the model's
    policies = found.all("AWS::ApplicationAutoScaling::ScalingPolicy")
    tracked = [each["TargetTrackingScalingPolicyConfiguration"] for each in policies]
    assert [each["TargetValue"] for each in tracked] == [100 * 60 * 0.5, 200]
