"""The dependencies of an endpoint: logs, topics, rule, keys, dashboard, buckets and permissions."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from servable.aws_account import absent, unless_absent
from servable.verify.deployed import DeployedStack, Resource
from servable.verify.difference import Difference, changed, gone
from servable.verify.resolving import UNKNOWN


def look(stack: DeployedStack) -> Iterator[Difference]:
    for resource in stack.resources:
        if resource.type in _CHECKS:
            try:
                yield from _CHECKS[resource.type](stack, resource)
            except ClientError as error:
                if not absent(error):
                    raise
                yield gone(resource.type.split("::", 1)[1].replace("::", " "), resource.name)


def _logs(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    name = resource.properties["LogGroupName"]
    groups = stack.account.pages(
        "logs", "describe_log_groups", "logGroups", logGroupNamePrefix=name
    )
    log_group = next((group for group in groups if group["logGroupName"] == name), None)
    if log_group is None:
        yield gone("log group", name)
        return
    days = resource.properties.get("RetentionInDays")
    wanted = {"RetentionInDays": days}
    now = {"RetentionInDays": log_group.get("retentionInDays", "for ever" if days else None)}
    remedy = "PutRetentionPolicy, or deploy again"
    yield from changed("log retention", name, wanted, now, remedy)
    key = resource.properties.get("KmsKeyId")
    now = {"KmsKeyId": log_group.get("kmsKeyId")}
    yield from changed("log key", name, {"KmsKeyId": key}, now, "deploy again")


def _filter(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    group = resource.properties["LogGroupName"]
    filters = stack.account.pages(
        "logs", "describe_metric_filters", "metricFilters", logGroupName=group
    )
    wanted = resource.properties["FilterPattern"]
    if wanted not in [metric_filter.get("filterPattern") for metric_filter in filters]:
        yield gone("metric filter", f"{group}: {resource.logical}")


def _topic(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    actual = stack.account.client("sns").get_topic_attributes(TopicArn=resource.physical)[
        "Attributes"
    ]
    key = resource.properties.get("KmsMasterKeyId")
    wanted = {"KmsMasterKeyId": key} if key else {}
    yield from changed("topic key", resource.physical, wanted, actual, "deploy again")


def _subscription(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    topic = resource.properties["TopicArn"]
    there = stack.account.pages(
        "sns", "list_subscriptions_by_topic", "Subscriptions", TopicArn=topic
    )
    if resource.properties["Endpoint"] not in [subscription["Endpoint"] for subscription in there]:
        yield gone("subscription", f"{topic}: {resource.properties['Endpoint']}")


def _rule(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    events = stack.account.client("events")
    actual = events.describe_rule(Name=resource.physical.rsplit("/", 1)[-1])
    meant, state = (
        {"State": state_of.get("State", "ENABLED")} for state_of in (resource.properties, actual)
    )
    remedy = "nobody is told of rollbacks: enable it"
    yield from changed("event rule disabled", resource.physical, meant, state, remedy)
    wanted_pattern = resource.properties.get("EventPattern", {})
    remedy = "somebody edited it: deploy again"
    pattern = json.loads(actual.get("EventPattern") or "{}")
    yield from changed("event pattern", resource.physical, wanted_pattern, pattern, remedy)
    targets = events.list_targets_by_rule(Rule=resource.physical.rsplit("/", 1)[-1])["Targets"]
    wanted = {target["Arn"] for target in resource.properties.get("Targets", [])} - {UNKNOWN}
    missing = wanted - {target["Arn"] for target in targets}
    if missing:
        yield gone("event target", f"{resource.physical}: {', '.join(sorted(missing))}")


def _key(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    actual = stack.account.client("kms").describe_key(KeyId=resource.physical)["KeyMetadata"]
    remedy = "enable it, or cancel its deletion"
    yield from changed("key not usable", resource.physical, {"KeyState": "Enabled"}, actual, remedy)


def _dashboard(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    name = resource.physical.rsplit("/", 1)[-1]
    actual = stack.account.client("cloudwatch").get_dashboard(DashboardName=name)["DashboardBody"]
    wanted = resource.properties["DashboardBody"]
    if wanted is not UNKNOWN and json.loads(wanted) != json.loads(actual):
        yield Difference(
            kind="dashboard changed",
            resource=name,
            wanted="as in the template",
            found="edited",
            remedy="deploy again, or write it into infra/constructs",
        )


def _bucket(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    s3, name, wanted = stack.account.client("s3"), resource.physical, resource.properties
    s3.head_bucket(Bucket=name)
    remedy = "deploy again (`cdk deploy --force`)"
    if wanted.get("VersioningConfiguration", {}).get("Status") == "Enabled":
        actual = s3.get_bucket_versioning(Bucket=name)
        yield from changed("bucket versioning", name, {"Status": "Enabled"}, actual, remedy)
    if blocked := wanted.get("PublicAccessBlockConfiguration"):
        actual = unless_absent(s3.get_public_access_block, Bucket=name) or {}
        now = actual.get("PublicAccessBlockConfiguration", {})
        yield from changed("bucket open to the public", name, blocked, now, remedy)
    for rule in wanted.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", []):
        by_default = {"ApplyServerSideEncryptionByDefault": rule["ServerSideEncryptionByDefault"]}
        actual = unless_absent(s3.get_bucket_encryption, Bucket=name) or {}
        there = (actual.get("ServerSideEncryptionConfiguration", {}).get("Rules") or [{}])[0]
        yield from changed("bucket encryption", name, by_default, there, remedy)


def _role(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    actual = stack.account.client("iam").get_role(RoleName=resource.physical)["Role"]
    key = "AssumeRolePolicyDocument"
    yield from _document("role trust", resource.physical, resource.properties[key], actual[key])
    if boundary := resource.properties.get("PermissionsBoundary"):
        there = actual.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn")
        remedy = "somebody changed it: deploy again (`cdk deploy --force`)"
        expected, has = {"PermissionsBoundary": boundary}, {"PermissionsBoundary": there}
        yield from changed("role boundary", resource.physical, expected, has, remedy)


def _policy(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    iam = stack.account.client("iam")
    name = resource.properties["PolicyName"]
    wanted = resource.properties["PolicyDocument"]
    for role in resource.properties.get("Roles", []):
        if role is not UNKNOWN:
            actual = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
            yield from _document("role permissions", f"{role}/{name}", wanted, actual)


def _document(kind: str, name: str, wanted: Any, actual: Any) -> Iterator[Difference]:
    now = json.loads(actual) if isinstance(actual, str) else actual
    remedy = "somebody edited it: deploy again (`cdk deploy --force`)"
    statements = wanted.get("Statement", [])
    if len(statements) != len(now.get("Statement", [])):
        yield Difference(
            kind=kind,
            resource=name,
            key="Statement",
            wanted=f"{len(statements)} statements",
            found=f"{len(now.get('Statement', []))} statements",
            remedy=remedy,
        )
        return
    yield from changed(kind, name, {"Statement": statements}, now, remedy)


def _managed_policy(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    iam = stack.account.client("iam")
    iam.get_policy(PolicyArn=resource.physical)
    there = iam.list_entities_for_policy(PolicyArn=resource.physical, EntityFilter="Role")
    names = {role["RoleName"] for role in there["PolicyRoles"]}
    missing = {role for role in resource.properties.get("Roles", []) if role is not UNKNOWN} - names
    if missing:
        yield gone("policy on role", f"{resource.name}: {', '.join(sorted(missing))}")


def _topic_policy(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    sns, wanted = stack.account.client("sns"), resource.properties["PolicyDocument"]
    for topic in resource.properties["Topics"]:
        if topic is not UNKNOWN:
            actual = sns.get_topic_attributes(TopicArn=topic)["Attributes"].get("Policy", "{}")
            yield from _document("topic policy", topic, wanted, actual)


def _bucket_policy(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    name = resource.properties["Bucket"]
    if name is UNKNOWN:
        return
    actual = stack.account.client("s3").get_bucket_policy(Bucket=name)["Policy"]
    yield from _document("bucket policy", name, resource.properties["PolicyDocument"], actual)


_Check = Callable[[DeployedStack, Resource], Iterator[Difference]]


def _state_machine(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    states, definition = (
        stack.account.client("stepfunctions"),
        resource.properties["DefinitionString"],
    )
    actual = states.describe_state_machine(stateMachineArn=resource.physical)
    if definition is not UNKNOWN:
        wanted, now = json.loads(definition), json.loads(actual["definition"])
        for machine in (wanted, now):
            _lower_model_names(machine)
        remedy = "somebody edited it: deploy again (`cdk deploy --force`)"
        yield from changed("batch changed", resource.physical, wanted, now, remedy)


def _lower_model_names(value: Any) -> None:
    """The template's are resolved from the ARN, which SageMaker writes in lower case."""
    if isinstance(value, dict) and isinstance(value.get("ModelName"), str):
        value["ModelName"] = value["ModelName"].lower()
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inside:
        _lower_model_names(each)


def _schedule(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    wanted = resource.properties
    actual = stack.account.client("scheduler").get_schedule(
        Name=wanted["Name"], GroupName=wanted["Name"]
    )
    keys = ("ScheduleExpression", "ScheduleExpressionTimezone", "Target")
    meant = {"State": "ENABLED", **{key: wanted[key] for key in keys if key in wanted}}
    remedy = "no run starts as the file says: deploy again (`cdk deploy --force`)"
    yield from changed("schedule changed", wanted["Name"], meant, actual, remedy)


_CHECKS: Mapping[str, _Check] = {
    "AWS::StepFunctions::StateMachine": _state_machine,
    "AWS::Scheduler::Schedule": _schedule,
    "AWS::Logs::LogGroup": _logs,
    "AWS::Logs::MetricFilter": _filter,
    "AWS::IAM::Role": _role,
    "AWS::IAM::Policy": _policy,
    "AWS::IAM::ManagedPolicy": _managed_policy,
    "AWS::SNS::TopicPolicy": _topic_policy,
    "AWS::SNS::Topic": _topic,
    "AWS::SNS::Subscription": _subscription,
    "AWS::Events::Rule": _rule,
    "AWS::KMS::Key": _key,
    "AWS::CloudWatch::Dashboard": _dashboard,
    "AWS::S3::Bucket": _bucket,
    "AWS::S3::BucketPolicy": _bucket_policy,
}
