"""The local AWS as its users hold it: an address, what is in it, and its stack CDKToolkit.

What is in it is asked of each service and not of CloudFormation, so that a deployment can be compared
with its template. The CDK CLI's own template makes CDKToolkit, so that a later `cdk bootstrap` of that CLI
changes nothing.
"""

import contextlib
import json
import os
import shutil
import urllib.error
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from servable_local.aws.clock import SECONDS_PER_MINUTE
from servable_local.aws.loopback import CLOCK_PATH, FAULT_PATH, Access

ACCOUNT = "123456789012"
REGION = "us-east-1"


@dataclass(frozen=True)
class LocalAws:
    """A running local AWS. `already_up`: a different caller had started it."""

    url: str
    pid: int
    started: str
    folder: Path
    # What its callers sign with: of this run, and in no log.
    secret_access_key: str = field(repr=False)
    already_up: bool = False
    # How long a minute of its alarms and deployments lasts; None: moved by `advance`.
    seconds_per_minute: float | None = SECONDS_PER_MINUTE
    # The most that a variant has; 0: endpoints are in service without any.
    most_containers: int = 1

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def environment(self, *, account: str = ACCOUNT, region: str = REGION) -> dict[str, str]:
        """Return the variables with which the CDK CLI, boto3, and the AWS CLI call it.

        `account` is the caller's: here an access key is an account number, and all of them have
        the secret of this run.
        """
        own = self.folder / "client"
        no_proxy = os.environ.get("NO_PROXY", os.environ.get("no_proxy", ""))
        # Each once: the lines of `up` are evaluated again in the same shell.
        hosts = ",".join(
            dict.fromkeys(filter(None, [*no_proxy.split(","), "127.0.0.1", "localhost"]))
        )
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": account,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            # Nothing of the user's own configuration, and nothing of ours in it.
            "AWS_CONFIG_FILE": str(own / "config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(own / "credentials"),
            "AWS_EC2_METADATA_DISABLED": "true",
            # The CLI remembers there which account an access key belongs to.
            "CDK_HOME": str(own / "cdk"),
            "CDK_DISABLE_VERSION_CHECK": "true",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "NO_PROXY": hosts,
            "no_proxy": hosts,
        }

    def environment_over(
        self, base: Mapping[str, str], *, account: str = ACCOUNT, region: str = REGION
    ) -> dict[str, str]:
        """Return an environment for a child: `base` without AWS settings, plus this one's."""
        others = {key: value for key, value in base.items() if not key.startswith("AWS_")}
        return others | self.environment(account=account, region=region)

    def client(self, service: str, *, account: str = ACCOUNT, region: str = REGION) -> Any:
        """Return a boto3 client, which ignores the environment and ~/.aws."""
        access = Access(self.url, self.secret_access_key)
        return access.client(service, account=account, region=region)

    def now(self) -> datetime:
        """Return the time on its clock: UTC, in a naive datetime."""
        return datetime.fromisoformat(self._call_control(CLOCK_PATH, None)["now"])

    def advance(self, *, minutes: float = 0.0, seconds: float = 0.0) -> datetime:
        """Advance a clock that stands still; everything due has happened on return."""
        step = {"seconds": minutes * SECONDS_PER_MINUTE + seconds}
        return datetime.fromisoformat(self._call_control(CLOCK_PATH, step)["now"])

    def inject_fault(
        self, endpoint: str, *, account: str = ACCOUNT, region: str = REGION, **kinds: Any
    ) -> None:
        """Makes a deployed endpoint slow, failing, frozen or dead: see servable_local/aws/request_router.py.

        `aws.inject_fault("ranker", latency_ms=300)`, `aws.inject_fault("ranker", end=True)`
        """
        whose = {"account": account, "region": region, "endpoint": endpoint}
        self._call_control(FAULT_PATH, whose | kinds)

    def no_capacity(
        self, *instance_types: str, account: str = ACCOUNT, region: str = REGION
    ) -> None:
        """Make new instances of only these types unavailable; without types, end that.

        `aws.no_capacity("ml.c5.xlarge")`: an endpoint on that type alone fails to start, and one
        with instance pools takes its next type.
        """
        whose = {"account": account, "region": region}
        self._call_control(FAULT_PATH, whose | {"no_capacity": list(instance_types)})

    def _call_control(self, path: str, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
        try:
            return Access(self.url, self.secret_access_key).call_control(path, parameters)
        except urllib.error.HTTPError as refused:
            parsed = json.loads(refused.read())
            raise ValueError(parsed.get("error") or parsed.get("message") or str(refused)) from None


Client = Callable[[str], Any]


def inventory(
    aws: LocalAws, *, account: str = ACCOUNT, region: str = REGION
) -> list[tuple[str, str]]:
    """Return the sorted (CloudFormation type, physical name) pairs of all resources.

    Two cases can't be distinguished from outside: a policy inside a role is counted as an
    AWS::IAM::Policy, and a topic has a topic policy if it differs from SNS's default. Alarms that
    Application Auto Scaling creates for a tracking policy are excluded: no template declares
    them.
    """

    def create_client(service: str) -> Any:
        return aws.client(service, account=account, region=region)

    return sorted(
        (kind, name)
        for kind, names in _LOOK.items()
        for name in names(create_client)
        if not name.startswith(("TargetTracking-", "alias/aws/"))
    )


def _list_items(client: Any, operation: str, key: str, **arguments: Any) -> Iterator[Any]:
    for page in client.get_paginator(operation).paginate(**arguments):
        yield from page.get(key, [])


@dataclass(frozen=True)
class _List:
    """The names of the resources that one operation lists, page by page."""

    service: str
    operation: str
    key: str
    name: str | tuple[str, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, client: Client) -> Iterator[str]:
        names = (self.name,) if isinstance(self.name, str) else self.name
        for resource in _list_items(
            client(self.service), self.operation, self.key, **self.arguments
        ):
            yield "|".join(resource[name] for name in names)


_SCALING = "application-autoscaling"
_TARGET = ("ResourceId", "ScalableDimension", "ServiceNamespace")
_OF_SAGEMAKER = {"ServiceNamespace": "sagemaker"}
_ROLES = _List("iam", "list_roles", "Roles", "RoleName")
_BUCKETS = _List("s3", "list_buckets", "Buckets", "Name")
_KEYS = _List("kms", "list_keys", "Keys", "KeyId")
_TOPICS = _List("sns", "list_topics", "Topics", "TopicArn")


def _build_alarm_list(kind: str) -> _List:
    of_type = {"AlarmTypes": [kind.removesuffix("s")]}  # without it AWS lists metric alarms only
    return _List("cloudwatch", "describe_alarms", kind, "AlarmName", of_type)


def _list_keys(client: Client) -> Iterator[str]:
    kms = client("kms")
    for key in _KEYS(client):
        metadata = kms.describe_key(KeyId=key)["KeyMetadata"]
        if metadata["KeyManager"] == "CUSTOMER" and metadata["KeyState"] != "PendingDeletion":
            yield key


def _list_topic_policies(client: Client) -> Iterator[str]:
    for arn in _TOPICS(client):
        attributes = client("sns").get_topic_attributes(TopicArn=arn)["Attributes"]
        if "__default_policy_ID" not in attributes.get("Policy", ""):
            yield arn


def _list_inline_policies(client: Client) -> set[str]:
    # By name: one policy may be put on several roles.
    iam = client("iam")
    return {
        name
        for role in _ROLES(client)
        for name in _list_items(iam, "list_role_policies", "PolicyNames", RoleName=role)
    }


def _list_bucket_policies(client: Client) -> Iterator[str]:
    s3 = client("s3")
    for name in _BUCKETS(client):
        try:
            s3.get_bucket_policy(Bucket=name)
        except s3.exceptions.ClientError:
            continue
        yield name


_FUNCTIONS = _List("lambda", "list_functions", "Functions", "FunctionName")


def _list_function_permissions(client: Client) -> Iterator[str]:
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
    "AWS::CloudWatch::Alarm": _build_alarm_list("MetricAlarms"),
    "AWS::CloudWatch::CompositeAlarm": _build_alarm_list("CompositeAlarms"),
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
    "AWS::IAM::Policy": _list_inline_policies,
    "AWS::IAM::Role": _ROLES,
    "AWS::KMS::Alias": _List("kms", "list_aliases", "Aliases", "AliasName"),
    "AWS::KMS::Key": _list_keys,
    "AWS::Lambda::Function": _FUNCTIONS,
    "AWS::Lambda::Permission": _list_function_permissions,
    "AWS::Logs::LogGroup": _List("logs", "describe_log_groups", "logGroups", "logGroupName"),
    "AWS::Logs::MetricFilter": _List(
        "logs", "describe_metric_filters", "metricFilters", "filterName"
    ),
    "AWS::Logs::QueryDefinition": lambda client: [
        query["queryDefinitionId"]
        for query in client("logs").describe_query_definitions()["queryDefinitions"]
    ],
    "AWS::S3::Bucket": _BUCKETS,
    "AWS::S3::BucketPolicy": _list_bucket_policies,
    "AWS::SNS::Subscription": _List(
        "sns", "list_subscriptions", "Subscriptions", "SubscriptionArn"
    ),
    "AWS::SNS::Topic": _TOPICS,
    "AWS::SNS::TopicPolicy": _list_topic_policies,
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


STACK = "CDKToolkit"
_TEMPLATE = Path("lib/api/bootstrap/bootstrap-template.yaml")
# The parameters that `cdk bootstrap` passes without options.
_PARAMETERS = [
    {"ParameterKey": "FileAssetsBucketKmsKeyId", "ParameterValue": "AWS_MANAGED_KEY"},
    {
        "ParameterKey": "CloudFormationExecutionPolicies",
        "ParameterValue": "arn:aws:iam::aws:policy/AdministratorAccess",
    },
]


class BootstrapError(Exception):
    """The stack could not be created. `str()` says why."""


def find_template(folder: Path) -> Path | None:
    """Return the template of the CDK CLI: the one on PATH, or the one that npm installed at or above
    `folder`. Return None without a CLI."""
    program = shutil.which("cdk")
    packages = [Path(program).resolve().parent.parent] if program else []
    packages += [above / "node_modules" / "aws-cdk" for above in (folder, *folder.parents)]
    return next((path for package in packages if (path := package / _TEMPLATE).is_file()), None)


def bootstrap(aws: LocalAws, *, account: str, region: str, folder: Path) -> bool:
    """Create CDKToolkit in an account and Region, unless it exists. Return False without a CDK CLI.

    `folder`: where to look for the CLI, after PATH. Raises `BootstrapError`.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    cloudformation = aws.client("cloudformation", account=account, region=region)
    try:
        stacks = cloudformation.describe_stacks()["Stacks"]
        if not any(stack["StackName"] == STACK for stack in stacks):
            template = find_template(folder)
            if template is None:
                return False
            with contextlib.suppress(cloudformation.exceptions.AlreadyExistsException):
                cloudformation.create_stack(
                    StackName=STACK,
                    TemplateBody=template.read_text(encoding="utf-8"),
                    Parameters=_PARAMETERS,
                    Capabilities=["CAPABILITY_NAMED_IAM"],
                )
        created = cloudformation.get_waiter("stack_create_complete")
        created.wait(StackName=STACK, WaiterConfig={"Delay": 0.1, "MaxAttempts": 600})
    except (BotoCoreError, ClientError) as error:
        place = f"aws://{account}/{region}"
        remedy = f"run `cdk bootstrap {place}` to see the reason"
        raise BootstrapError(f"cannot bootstrap {place}: {error}; {remedy}") from None
    return True
