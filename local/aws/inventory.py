"""Everything that exists in the embedded AWS, asked of each service and not of CloudFormation.

So that a deployment can be compared with its template: what CloudFormation says it made
and what is there are two different things. Long because it is one small look per type,
and only together are they an answer.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from local.aws.embedded_aws import ACCOUNT, REGION, EmbeddedAws

Client = Callable[[str], Any]


def inventory(
    aws: EmbeddedAws, *, account: str = ACCOUNT, region: str = REGION
) -> list[tuple[str, str]]:
    """(CloudFormation type, physical name), sorted.

    Two things cannot be told apart from outside: a policy inside a role is counted as an
    AWS::IAM::Policy, and a topic has a topic policy when it is not SNS's default one.
    """

    def client(service: str) -> Any:
        return aws.client(service, account=account, region=region)

    return sorted((kind, name) for kind, names in _LOOK.items() for name in names(client))


def _all(client: Any, operation: str, key: str, **arguments: Any) -> Iterator[Any]:
    for page in client.get_paginator(operation).paginate(**arguments):
        yield from page.get(key, [])


def _keys(client: Client) -> Iterator[str]:
    kms = client("kms")
    for one in _all(kms, "list_keys", "Keys"):
        found = kms.describe_key(KeyId=one["KeyId"])["KeyMetadata"]
        if found["KeyManager"] == "CUSTOMER" and found["KeyState"] != "PendingDeletion":
            yield one["KeyId"]


def _aliases(client: Client) -> Iterator[str]:
    for one in _all(client("kms"), "list_aliases", "Aliases"):
        if not one["AliasName"].startswith("alias/aws/"):
            yield one["AliasName"]


def _topics(client: Client) -> Iterator[str]:
    for one in _all(client("sns"), "list_topics", "Topics"):
        yield one["TopicArn"]


def _topic_policies(client: Client) -> Iterator[str]:
    sns = client("sns")
    for arn in _topics(client):
        policy = sns.get_topic_attributes(TopicArn=arn)["Attributes"].get("Policy", "")
        if "__default_policy_ID" not in policy:
            yield arn


def _subscriptions(client: Client) -> Iterator[str]:
    for one in _all(client("sns"), "list_subscriptions", "Subscriptions"):
        yield one["SubscriptionArn"]


def _log_groups(client: Client) -> Iterator[str]:
    for one in _all(client("logs"), "describe_log_groups", "logGroups"):
        yield one["logGroupName"]


def _metric_filters(client: Client) -> Iterator[str]:
    for one in _all(client("logs"), "describe_metric_filters", "metricFilters"):
        yield one["filterName"]


def _saved_queries(client: Client) -> Iterator[str]:
    for one in client("logs").describe_query_definitions()["queryDefinitions"]:
        yield one["queryDefinitionId"]


def _rules(client: Client) -> Iterator[str]:
    for one in _all(client("events"), "list_rules", "Rules"):
        yield one["Name"]


def _functions(client: Client) -> Iterator[str]:
    for one in _all(client("lambda"), "list_functions", "Functions"):
        yield one["FunctionName"]


def _function_permissions(client: Client) -> Iterator[str]:
    functions = client("lambda")
    for name in _functions(client):
        try:
            policy = functions.get_policy(FunctionName=name)["Policy"]
        except functions.exceptions.ResourceNotFoundException:
            continue
        for statement in json.loads(policy)["Statement"]:
            yield statement["Sid"]


def _roles(client: Client) -> Iterator[str]:
    for one in _all(client("iam"), "list_roles", "Roles"):
        yield one["RoleName"]


def _inline_policies(client: Client) -> set[str]:
    """By name: one policy may be put on several roles."""
    iam = client("iam")
    return {
        name
        for role in _roles(client)
        for name in _all(iam, "list_role_policies", "PolicyNames", RoleName=role)
    }


def _managed_policies(client: Client) -> Iterator[str]:
    for one in _all(client("iam"), "list_policies", "Policies", Scope="Local"):
        yield one["Arn"]


def _buckets(client: Client) -> Iterator[str]:
    for one in client("s3").list_buckets()["Buckets"]:
        yield one["Name"]


def _bucket_policies(client: Client) -> Iterator[str]:
    s3 = client("s3")
    for name in _buckets(client):
        try:
            s3.get_bucket_policy(Bucket=name)
        except s3.exceptions.ClientError:
            continue
        yield name


def _repositories(client: Client) -> Iterator[str]:
    for one in _all(client("ecr"), "describe_repositories", "repositories"):
        yield one["repositoryName"]


def _parameters(client: Client) -> Iterator[str]:
    for one in _all(client("ssm"), "describe_parameters", "Parameters"):
        yield one["Name"]


def _models(client: Client) -> Iterator[str]:
    for one in _all(client("sagemaker"), "list_models", "Models"):
        yield one["ModelName"]


def _endpoint_configs(client: Client) -> Iterator[str]:
    for one in _all(client("sagemaker"), "list_endpoint_configs", "EndpointConfigs"):
        yield one["EndpointConfigName"]


def _endpoints(client: Client) -> Iterator[str]:
    for one in _all(client("sagemaker"), "list_endpoints", "Endpoints"):
        yield one["EndpointName"]


def _scalable_targets(client: Client) -> Iterator[str]:
    scaling = client("application-autoscaling")
    for one in _all(
        scaling, "describe_scalable_targets", "ScalableTargets", ServiceNamespace="sagemaker"
    ):
        yield f"{one['ResourceId']}|{one['ScalableDimension']}|{one['ServiceNamespace']}"


def _scaling_policies(client: Client) -> Iterator[str]:
    scaling = client("application-autoscaling")
    for one in _all(
        scaling, "describe_scaling_policies", "ScalingPolicies", ServiceNamespace="sagemaker"
    ):
        yield one["PolicyARN"]


def _alarms(kind: str) -> Callable[[Client], Iterator[str]]:
    def names(client: Client) -> Iterator[str]:
        of_type = kind.removesuffix("s")  # without it AWS lists metric alarms only
        for one in _all(client("cloudwatch"), "describe_alarms", kind, AlarmTypes=[of_type]):
            yield one["AlarmName"]

    return names


def _dashboards(client: Client) -> Iterator[str]:
    for one in _all(client("cloudwatch"), "list_dashboards", "DashboardEntries"):
        yield one["DashboardName"]


_LOOK: dict[str, Callable[[Client], Iterator[str] | set[str]]] = {
    "AWS::ApplicationAutoScaling::ScalableTarget": _scalable_targets,
    "AWS::ApplicationAutoScaling::ScalingPolicy": _scaling_policies,
    "AWS::CloudWatch::Alarm": _alarms("MetricAlarms"),
    "AWS::CloudWatch::CompositeAlarm": _alarms("CompositeAlarms"),
    "AWS::CloudWatch::Dashboard": _dashboards,
    "AWS::ECR::Repository": _repositories,
    "AWS::Events::Rule": _rules,
    "AWS::IAM::ManagedPolicy": _managed_policies,
    "AWS::IAM::Policy": _inline_policies,
    "AWS::IAM::Role": _roles,
    "AWS::KMS::Alias": _aliases,
    "AWS::KMS::Key": _keys,
    "AWS::Lambda::Function": _functions,
    "AWS::Lambda::Permission": _function_permissions,
    "AWS::Logs::LogGroup": _log_groups,
    "AWS::Logs::MetricFilter": _metric_filters,
    "AWS::Logs::QueryDefinition": _saved_queries,
    "AWS::S3::Bucket": _buckets,
    "AWS::S3::BucketPolicy": _bucket_policies,
    "AWS::SNS::Subscription": _subscriptions,
    "AWS::SNS::Topic": _topics,
    "AWS::SNS::TopicPolicy": _topic_policies,
    "AWS::SSM::Parameter": _parameters,
    "AWS::SageMaker::Endpoint": _endpoints,
    "AWS::SageMaker::EndpointConfig": _endpoint_configs,
    "AWS::SageMaker::Model": _models,
}
