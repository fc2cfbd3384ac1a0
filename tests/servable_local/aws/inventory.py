"""Everything in an account of the local AWS, as each service lists it, without CloudFormation."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from servable_local.aws.local_aws import ACCOUNT, REGION, LocalAws

# Type: service, operation, key in its response, key of the name.
_LISTED = {
    "ApplicationAutoScaling::ScalingPolicy": (
        "application-autoscaling describe_scaling_policies ScalingPolicies PolicyARN"
    ),
    "CloudWatch::Dashboard": "cloudwatch list_dashboards DashboardEntries DashboardName",
    "ECR::Repository": "ecr describe_repositories repositories repositoryName",
    "Events::ApiDestination": "events list_api_destinations ApiDestinations Name",
    "Events::Connection": "events list_connections Connections Name",
    "Events::Rule": "events list_rules Rules Name",
    "IAM::Role": "iam list_roles Roles RoleName",
    "KMS::Alias": "kms list_aliases Aliases AliasName",
    "Lambda::Function": "lambda list_functions Functions FunctionName",
    "Logs::LogGroup": "logs describe_log_groups logGroups logGroupName",
    "Logs::MetricFilter": "logs describe_metric_filters metricFilters filterName",
    "Logs::QueryDefinition": "logs describe_query_definitions queryDefinitions queryDefinitionId",
    "S3::Bucket": "s3 list_buckets Buckets Name",
    "SNS::Subscription": "sns list_subscriptions Subscriptions SubscriptionArn",
    "SNS::Topic": "sns list_topics Topics TopicArn",
    "SSM::Parameter": "ssm describe_parameters Parameters Name",
    "SageMaker::Endpoint": "sagemaker list_endpoints Endpoints EndpointName",
    "SageMaker::EndpointConfig": (
        "sagemaker list_endpoint_configs EndpointConfigs EndpointConfigName"
    ),
    "SageMaker::InferenceComponent": (
        "sagemaker list_inference_components InferenceComponents InferenceComponentName"
    ),
    "SageMaker::Model": "sagemaker list_models Models ModelName",
    "Scheduler::Schedule": "scheduler list_schedules Schedules Name",
    "Scheduler::ScheduleGroup": "scheduler list_schedule_groups ScheduleGroups Name",
    "StepFunctions::StateMachine": (
        "stepfunctions list_state_machines stateMachines stateMachineArn"
    ),
}


def inventory(
    aws: LocalAws, *, account: str = ACCOUNT, region: str = REGION
) -> list[tuple[str, str]]:
    """The sorted (CloudFormation type, physical name) pairs.

    A policy inside a role counts as an AWS::IAM::Policy, and a topic has a topic policy if it
    differs from SNS's default. What AWS makes by itself is left out: a tracking policy's alarms,
    its keys' aliases, and the default group of schedules.
    """

    def client(service: str) -> Any:
        return aws.client(service, account=account, region=region)

    def items(service: str, operation: str, key: str, **given: Any) -> list[Any]:
        own = client(service)
        if service == "application-autoscaling":
            given = {"ServiceNamespace": "sagemaker"}
        if not own.can_paginate(operation):
            return list(getattr(own, operation)(**given)[key])
        pages = own.get_paginator(operation).paginate(**given)
        return [item for page in pages for item in page.get(key, [])]

    def others() -> Iterator[tuple[str, str]]:
        scaling = "application-autoscaling", "describe_scalable_targets", "ScalableTargets"
        names = ("ResourceId", "ScalableDimension", "ServiceNamespace")
        for target in items(*scaling):
            target = "|".join(target[name] for name in names)
            yield "ApplicationAutoScaling::ScalableTarget", target
        for kind in ("MetricAlarm", "CompositeAlarm"):
            for alarm in items("cloudwatch", "describe_alarms", f"{kind}s", AlarmTypes=[kind]):
                yield f"CloudWatch::{kind.removeprefix('Metric')}", alarm["AlarmName"]
        for policy in items("iam", "list_policies", "Policies", Scope="Local"):
            yield "IAM::ManagedPolicy", policy["Arn"]
        roles = [role["RoleName"] for role in items("iam", "list_roles", "Roles")]
        listed = "iam", "list_role_policies", "PolicyNames"
        # By name: one policy may be put on several roles.
        for name in {policy for role in roles for policy in items(*listed, RoleName=role)}:
            yield "IAM::Policy", name
        kms, sns, s3, functions = map(client, ("kms", "sns", "s3", "lambda"))
        for key in items("kms", "list_keys", "Keys"):
            metadata = kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"]
            if metadata["KeyManager"] == "CUSTOMER" and metadata["KeyState"] != "PendingDeletion":
                yield "KMS::Key", key["KeyId"]
        for topic in items("sns", "list_topics", "Topics"):
            attributes = sns.get_topic_attributes(**topic)["Attributes"]
            if "__default_policy_ID" not in attributes.get("Policy", ""):
                yield "SNS::TopicPolicy", topic["TopicArn"]
        for bucket in items("s3", "list_buckets", "Buckets"):
            with suppress(s3.exceptions.ClientError):
                s3.get_bucket_policy(Bucket=bucket["Name"])
                yield "S3::BucketPolicy", bucket["Name"]
        for function in items("lambda", "list_functions", "Functions"):
            with suppress(functions.exceptions.ResourceNotFoundException):
                found = functions.get_policy(FunctionName=function["FunctionName"])
                for statement in json.loads(found["Policy"])["Statement"]:
                    yield "Lambda::Permission", statement["Sid"]

    listed = [
        (kind, str(item[name]))
        for kind, row in _LISTED.items()
        for service, operation, key, name in [row.split()]
        for item in items(service, operation, key)
    ]
    return sorted(
        (f"AWS::{kind}", name)
        for kind, name in [*listed, *others()]
        if not name.startswith(("TargetTracking-", "alias/aws/"))
        and (kind, name) != ("Scheduler::ScheduleGroup", "default")
    )
