"""What an endpoint depends on: logs, topics, rule, keys, dashboard, buckets, and who may do what."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from servable.aws_account import absent, unless_absent
from servable.verify.deployed import Deployed, Resource
from servable.verify.difference import Difference, changed, gone
from servable.verify.resolving import UNKNOWN


def look(stack: Deployed) -> Iterator[Difference]:
    for one in stack.resources:
        if one.type in _LOOKS:
            try:
                yield from _LOOKS[one.type](stack, one)
            except ClientError as error:
                if not absent(error):
                    raise
                yield gone(one.type.split("::", 1)[1].replace("::", " "), one.name)


def _logs(stack: Deployed, one: Resource) -> Iterator[Difference]:
    name = one.properties["LogGroupName"]
    groups = stack.account.pages(
        "logs", "describe_log_groups", "logGroups", logGroupNamePrefix=name
    )
    found = next((group for group in groups if group["logGroupName"] == name), None)
    if found is None:
        yield gone("log group", name)
        return
    days = one.properties.get("RetentionInDays")
    wanted = {"RetentionInDays": days}
    now = {"RetentionInDays": found.get("retentionInDays", "for ever" if days else None)}
    remedy = "PutRetentionPolicy, or deploy again"
    yield from changed("log retention", name, wanted, now, remedy)
    key = one.properties.get("KmsKeyId")
    if key not in (UNKNOWN, found.get("kmsKeyId")):
        yield Difference(
            kind="log key", resource=name, wanted=key, found=found.get("kmsKeyId"), remedy="deploy"
        )


def _filter(stack: Deployed, one: Resource) -> Iterator[Difference]:
    group = one.properties["LogGroupName"]
    filters = stack.account.pages(
        "logs", "describe_metric_filters", "metricFilters", logGroupName=group
    )
    wanted = one.properties["FilterPattern"]
    if wanted not in [found.get("filterPattern") for found in filters]:
        yield gone("metric filter", f"{group}: {one.logical}")


def _topic(stack: Deployed, one: Resource) -> Iterator[Difference]:
    found = stack.account.client("sns").get_topic_attributes(TopicArn=one.physical)["Attributes"]
    key = one.properties.get("KmsMasterKeyId")
    wanted = {"KmsMasterKeyId": key} if key else {}
    yield from changed("topic key", one.physical, wanted, found, "deploy again")


def _subscription(stack: Deployed, one: Resource) -> Iterator[Difference]:
    topic = one.properties["TopicArn"]
    there = stack.account.pages(
        "sns", "list_subscriptions_by_topic", "Subscriptions", TopicArn=topic
    )
    if one.properties["Endpoint"] not in [found["Endpoint"] for found in there]:
        yield gone("subscription", f"{topic}: {one.properties['Endpoint']}")


def _rule(stack: Deployed, one: Resource) -> Iterator[Difference]:
    events = stack.account.client("events")
    found = events.describe_rule(Name=one.physical.rsplit("/", 1)[-1])
    meant, state = ({"State": each.get("State", "ENABLED")} for each in (one.properties, found))
    remedy = "nobody is told of rollbacks: enable it"
    yield from changed("event rule disabled", one.physical, meant, state, remedy)
    wanted_pattern = one.properties.get("EventPattern", {})
    remedy = "somebody edited it: deploy again"
    pattern = json.loads(found.get("EventPattern") or "{}")
    yield from changed("event pattern", one.physical, wanted_pattern, pattern, remedy)
    targets = events.list_targets_by_rule(Rule=one.physical.rsplit("/", 1)[-1])["Targets"]
    wanted = {target["Arn"] for target in one.properties.get("Targets", [])} - {UNKNOWN}
    missing = wanted - {target["Arn"] for target in targets}
    if missing:
        yield gone("event target", f"{one.physical}: {', '.join(sorted(missing))}")


def _key(stack: Deployed, one: Resource) -> Iterator[Difference]:
    found = stack.account.client("kms").describe_key(KeyId=one.physical)["KeyMetadata"]
    remedy = "enable it, or cancel its deletion"
    yield from changed("key not usable", one.physical, {"KeyState": "Enabled"}, found, remedy)


def _dashboard(stack: Deployed, one: Resource) -> Iterator[Difference]:
    name = one.physical.rsplit("/", 1)[-1]
    found = stack.account.client("cloudwatch").get_dashboard(DashboardName=name)["DashboardBody"]
    wanted = one.properties["DashboardBody"]
    if wanted is not UNKNOWN and json.loads(wanted) != json.loads(found):
        yield Difference(
            kind="dashboard changed",
            resource=name,
            wanted="as in the template",
            found="edited",
            remedy="deploy again, or write it into infra/constructs",
        )


def _bucket(stack: Deployed, one: Resource) -> Iterator[Difference]:
    s3, name, wanted = stack.account.client("s3"), one.physical, one.properties
    s3.head_bucket(Bucket=name)
    remedy = "deploy again (`cdk deploy --force`)"
    if wanted.get("VersioningConfiguration", {}).get("Status") == "Enabled":
        found = s3.get_bucket_versioning(Bucket=name)
        yield from changed("bucket versioning", name, {"Status": "Enabled"}, found, remedy)
    if blocked := wanted.get("PublicAccessBlockConfiguration"):
        found = unless_absent(s3.get_public_access_block, Bucket=name) or {}
        now = found.get("PublicAccessBlockConfiguration", {})
        yield from changed("bucket open to the public", name, blocked, now, remedy)
    for rule in wanted.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", []):
        by_default = {"ApplyServerSideEncryptionByDefault": rule["ServerSideEncryptionByDefault"]}
        found = unless_absent(s3.get_bucket_encryption, Bucket=name) or {}
        there = (found.get("ServerSideEncryptionConfiguration", {}).get("Rules") or [{}])[0]
        yield from changed("bucket encryption", name, by_default, there, remedy)


def _role(stack: Deployed, one: Resource) -> Iterator[Difference]:
    found = stack.account.client("iam").get_role(RoleName=one.physical)["Role"]
    wanted, now = one.properties["AssumeRolePolicyDocument"], found["AssumeRolePolicyDocument"]
    yield from _document("role trust", one.physical, wanted, now)
    if boundary := one.properties.get("PermissionsBoundary"):
        there = found.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn")
        remedy = "somebody changed it: deploy again (`cdk deploy --force`)"
        asked, has = {"PermissionsBoundary": boundary}, {"PermissionsBoundary": there}
        yield from changed("role boundary", one.physical, asked, has, remedy)


def _policy(stack: Deployed, one: Resource) -> Iterator[Difference]:
    iam = stack.account.client("iam")
    name = one.properties["PolicyName"]
    for role in one.properties.get("Roles", []):
        if role is UNKNOWN:
            continue
        found = iam.get_role_policy(RoleName=role, PolicyName=name)
        wanted = one.properties["PolicyDocument"]
        yield from _document("role permissions", f"{role}/{name}", wanted, found["PolicyDocument"])


def _document(kind: str, name: str, wanted: Any, found: Any) -> Iterator[Difference]:
    now = json.loads(found) if isinstance(found, str) else found
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


def _managed_policy(stack: Deployed, one: Resource) -> Iterator[Difference]:
    iam = stack.account.client("iam")
    iam.get_policy(PolicyArn=one.physical)
    there = iam.list_entities_for_policy(PolicyArn=one.physical, EntityFilter="Role")
    names = {role["RoleName"] for role in there["PolicyRoles"]}
    missing = {role for role in one.properties.get("Roles", []) if role is not UNKNOWN} - names
    if missing:
        yield gone("policy on role", f"{one.name}: {', '.join(sorted(missing))}")


def _topic_policy(stack: Deployed, one: Resource) -> Iterator[Difference]:
    sns = stack.account.client("sns")
    for topic in one.properties["Topics"]:
        if topic is not UNKNOWN:
            found = sns.get_topic_attributes(TopicArn=topic)["Attributes"].get("Policy", "{}")
            yield from _document("topic policy", topic, one.properties["PolicyDocument"], found)


def _bucket_policy(stack: Deployed, one: Resource) -> Iterator[Difference]:
    name = one.properties["Bucket"]
    if name is UNKNOWN:
        return
    found = stack.account.client("s3").get_bucket_policy(Bucket=name)["Policy"]
    yield from _document("bucket policy", name, one.properties["PolicyDocument"], found)


Look = Callable[[Deployed, Resource], Iterator[Difference]]
_LOOKS: Mapping[str, Look] = {
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
