"""Topics, alarms, metrics, and scalable targets are CDK's own, and so fit what an app has of CDK."""

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template

from servable.constructs import (
    Alarms,
    AlarmTopic,
    EndpointAlarms,
    EndpointDashboard,
    EndpointEvents,
    NotificationKey,
)
from tests.constructs.test_in_ones_own_app import HERE, Own

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
    own = Own()
    topic = topic_of(kind, own.stack)
    EndpointAlarms(own.stack, "Alarms", endpoint=own.endpoint, alarms=Alarms(), inform=topic)
    EndpointEvents(own.stack, "Events", endpoint_name="search", inform=topic)
    template = Template.from_stack(own.stack).to_json()["Resources"].values()
    expected = own.stack.resolve(topic.topic_arn)
    sent: list[Any] = []
    for resource in template:
        properties = resource.get("Properties", {})
        if resource["Type"] in ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"):
            assert properties["AlarmActions"] == properties["OKActions"]
            sent += properties["AlarmActions"]
        if resource["Type"] == "AWS::Events::Rule":
            sent += [target["Arn"] for target in properties["Targets"]]
    assert len(sent) > 4
    assert all(arn == expected for arn in sent)


def test_an_alarm_topic_is_a_topic_of_cdk() -> None:
    stack = cdk.Stack(cdk.App(), "search", env=HERE)
    key = NotificationKey(stack, "Key", given_arn=None).key
    topic = AlarmTopic(stack, "Alarms", notify=["a@example.com", "https://b.example"], key=key)
    assert isinstance(topic, sns.Topic)
    template = Template.from_stack(stack)
    assert [*template.find_resources("AWS::SNS::Topic")] == ["AlarmsTopic3A2DFEBA"]
    template.resource_count_is("AWS::SNS::Subscription", 2)


def test_alarms_fit_composite_alarms_actions_and_dashboards_of_cdk() -> None:
    own = Own()
    topic = sns.Topic.from_topic_arn(own.stack, "OnCall", ON_CALL)
    alarms = EndpointAlarms(
        own.stack,
        "Alarms",
        endpoint=own.endpoint,
        alarms=Alarms(p99_latency_ms=80),
        inform=sns.Topic(own.stack, "Topic"),
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
    template = Template.from_stack(own.stack)
    template.has_resource_properties(
        "AWS::CloudWatch::Alarm",
        {"AlarmName": "search-primary-p99-latency", "InsufficientDataActions": [ON_CALL]},
    )
    (objective,) = template.find_resources(
        "AWS::CloudWatch::CompositeAlarm", {"Properties": {"AlarmName": "search-objective"}}
    ).values()
    assert objective["Properties"]["AlarmActions"][1] == ON_CALL


def test_scaling_is_a_scalable_target_of_cdk_with_the_service_linked_role() -> None:
    own = Own(min_instances=2, max_instances=6)
    own.variant.auto_scale(max_rps_per_instance=100)
    own.endpoint.add_alarms(p99_latency_ms=80, notify=sns.Topic(own.stack, "Topic"))
    assert own.endpoint.alarms is not None  # creates the constructs
    target = own.variant.target
    assert isinstance(target, autoscaling.ScalableTarget)
    target.scale_on_schedule(
        "Night", schedule=autoscaling.Schedule.expression("cron(0 22 * * ? *)"), max_capacity=3
    )
    target.scale_to_track_metric(
        "Cpu", target_value=200, custom_metric=own.endpoint.metric_cpu_utilization()
    )
    template = Template.from_stack(own.stack)
    (target,) = template.find_resources("AWS::ApplicationAutoScaling::ScalableTarget").values()
    properties = target["Properties"]
    assert [each["ScheduledActionName"] for each in properties["ScheduledActions"]] == ["Night"]
    role = "".join(map(str, properties["RoleARN"]["Fn::Join"][1]))
    assert role.endswith("AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint")
    template.resource_count_is("AWS::IAM::Role", 1)  # the model's
    policies = template.find_resources("AWS::ApplicationAutoScaling::ScalingPolicy").values()
    tracked = [each["Properties"]["TargetTrackingScalingPolicyConfiguration"] for each in policies]
    assert [each["TargetValue"] for each in tracked] == [100 * 60 * 0.5, 200]
