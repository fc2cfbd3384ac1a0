"""Everything that exists in the local AWS, asked of each service and not of CloudFormation.

So that a deployment can be compared with its template: what CloudFormation says it made
and what is there are two different things.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from servable_local.aws.local_aws import ACCOUNT, REGION, LocalAws

Client = Callable[[str], Any]


def inventory(
    aws: LocalAws, *, account: str = ACCOUNT, region: str = REGION
) -> list[tuple[str, str]]:
    """(CloudFormation type, physical name), sorted.

    Two things cannot be told apart from outside: a policy inside a role is counted as an
    AWS::IAM::Policy, and a topic has a topic policy when it is not SNS's default one. The alarms that
    Application Auto Scaling makes for a tracking policy are left out: no template declares them.
    """

    def client(service: str) -> Any:
        return aws.client(service, account=account, region=region)

    return sorted(
        (kind, name)
        for kind, names in _LOOK.items()
        for name in names(client)
        if not name.startswith(("TargetTracking-", "alias/aws/"))
    )


def _all(client: Any, operation: str, key: str, **arguments: Any) -> Iterator[Any]:
    for page in client.get_paginator(operation).paginate(**arguments):
        yield from page.get(key, [])


@dataclass(frozen=True)
class _List:
    """The names of all that one operation lists, page by page."""

    service: str
    operation: str
    key: str
    name: str | tuple[str, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, client: Client) -> Iterator[str]:
        names = (self.name,) if isinstance(self.name, str) else self.name
        for resource in _all(client(self.service), self.operation, self.key, **self.arguments):
            yield "|".join(resource[name] for name in names)


_SCALING = "application-autoscaling"
_TARGET = ("ResourceId", "ScalableDimension", "ServiceNamespace")
_OF_SAGEMAKER = {"ServiceNamespace": "sagemaker"}
_ROLES = _List("iam", "list_roles", "Roles", "RoleName")
_BUCKETS = _List("s3", "list_buckets", "Buckets", "Name")
_KEYS = _List("kms", "list_keys", "Keys", "KeyId")
_TOPICS = _List("sns", "list_topics", "Topics", "TopicArn")


def _alarms(kind: str) -> _List:
    of_type = {"AlarmTypes": [kind.removesuffix("s")]}  # without it AWS lists metric alarms only
    return _List("cloudwatch", "describe_alarms", kind, "AlarmName", of_type)


def _keys(client: Client) -> Iterator[str]:
    kms = client("kms")
    for key in _KEYS(client):
        metadata = kms.describe_key(KeyId=key)["KeyMetadata"]
        if metadata["KeyManager"] == "CUSTOMER" and metadata["KeyState"] != "PendingDeletion":
            yield key


def _topic_policies(client: Client) -> Iterator[str]:
    for arn in _TOPICS(client):
        attributes = client("sns").get_topic_attributes(TopicArn=arn)["Attributes"]
        if "__default_policy_ID" not in attributes.get("Policy", ""):
            yield arn


def _inline_policies(client: Client) -> set[str]:
    # By name: one policy may be put on several roles.
    iam = client("iam")
    return {
        name
        for role in _ROLES(client)
        for name in _all(iam, "list_role_policies", "PolicyNames", RoleName=role)
    }


def _bucket_policies(client: Client) -> Iterator[str]:
    s3 = client("s3")
    for name in _BUCKETS(client):
        try:
            s3.get_bucket_policy(Bucket=name)
        except s3.exceptions.ClientError:
            continue
        yield name


_FUNCTIONS = _List("lambda", "list_functions", "Functions", "FunctionName")


def _function_permissions(client: Client) -> Iterator[str]:
    functions = client("lambda")
    for name in _FUNCTIONS(client):
        try:
            policy = functions.get_policy(FunctionName=name)["Policy"]
        except functions.exceptions.ResourceNotFoundException:
            continue
        for statement in json.loads(policy)["Statement"]:
            yield statement["Sid"]


_LOOK: dict[str, Callable[[Client], Iterable[str]]] = {
    "AWS::ApplicationAutoScaling::ScalableTarget": _List(
        _SCALING, "describe_scalable_targets", "ScalableTargets", _TARGET, _OF_SAGEMAKER
    ),
    "AWS::ApplicationAutoScaling::ScalingPolicy": _List(
        _SCALING, "describe_scaling_policies", "ScalingPolicies", "PolicyARN", _OF_SAGEMAKER
    ),
    "AWS::CloudWatch::Alarm": _alarms("MetricAlarms"),
    "AWS::CloudWatch::CompositeAlarm": _alarms("CompositeAlarms"),
    "AWS::CloudWatch::Dashboard": _List(
        "cloudwatch", "list_dashboards", "DashboardEntries", "DashboardName"
    ),
    "AWS::ECR::Repository": _List("ecr", "describe_repositories", "repositories", "repositoryName"),
    # One page: boto3 has no paginator for these two.
    "AWS::Events::ApiDestination": lambda client: [
        each["Name"] for each in client("events").list_api_destinations()["ApiDestinations"]
    ],
    "AWS::Events::Connection": lambda client: [
        each["Name"] for each in client("events").list_connections()["Connections"]
    ],
    "AWS::Events::Rule": _List("events", "list_rules", "Rules", "Name"),
    "AWS::IAM::ManagedPolicy": _List("iam", "list_policies", "Policies", "Arn", {"Scope": "Local"}),
    "AWS::IAM::Policy": _inline_policies,
    "AWS::IAM::Role": _ROLES,
    "AWS::KMS::Alias": _List("kms", "list_aliases", "Aliases", "AliasName"),
    "AWS::KMS::Key": _keys,
    "AWS::Lambda::Function": _FUNCTIONS,
    "AWS::Lambda::Permission": _function_permissions,
    "AWS::Logs::LogGroup": _List("logs", "describe_log_groups", "logGroups", "logGroupName"),
    "AWS::Logs::MetricFilter": _List(
        "logs", "describe_metric_filters", "metricFilters", "filterName"
    ),
    "AWS::Logs::QueryDefinition": lambda client: [
        query["queryDefinitionId"]
        for query in client("logs").describe_query_definitions()["queryDefinitions"]
    ],
    "AWS::S3::Bucket": _BUCKETS,
    "AWS::S3::BucketPolicy": _bucket_policies,
    "AWS::SNS::Subscription": _List(
        "sns", "list_subscriptions", "Subscriptions", "SubscriptionArn"
    ),
    "AWS::SNS::Topic": _TOPICS,
    "AWS::SNS::TopicPolicy": _topic_policies,
    "AWS::SSM::Parameter": _List("ssm", "describe_parameters", "Parameters", "Name"),
    "AWS::Scheduler::Schedule": _List("scheduler", "list_schedules", "Schedules", "Name"),
    "AWS::Scheduler::ScheduleGroup": lambda client: [
        group["Name"]
        for group in client("scheduler").list_schedule_groups()["ScheduleGroups"]
        if group["Name"] != "default"
    ],
    "AWS::StepFunctions::StateMachine": _List(
        "stepfunctions", "list_state_machines", "stateMachines", "stateMachineArn"
    ),
    "AWS::SageMaker::Endpoint": _List("sagemaker", "list_endpoints", "Endpoints", "EndpointName"),
    "AWS::SageMaker::EndpointConfig": _List(
        "sagemaker", "list_endpoint_configs", "EndpointConfigs", "EndpointConfigName"
    ),
    "AWS::SageMaker::InferenceComponent": _List(
        "sagemaker",
        "list_inference_components",
        "InferenceComponents",
        "InferenceComponentName",
    ),
    "AWS::SageMaker::Model": _List("sagemaker", "list_models", "Models", "ModelName"),
}
