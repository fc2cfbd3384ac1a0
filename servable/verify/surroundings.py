"""What an endpoint stands on: logs, topics, rule, keys, dashboard, buckets."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from servable.aws_account import absent
from servable.verify import permissions
from servable.verify.comparison import same
from servable.verify.deployed import Deployed, Resource
from servable.verify.difference import Difference
from servable.verify.endpoint import changed, gone
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
    wanted, now = one.properties.get("RetentionInDays"), found.get("retentionInDays")
    if not same(wanted, now):
        yield Difference(
            kind="log retention",
            resource=name,
            key="RetentionInDays",
            wanted=wanted,
            found="for ever" if now is None else now,
            remedy="PutRetentionPolicy, or deploy again",
        )
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
    if key not in (None, UNKNOWN) and str(found.get("KmsMasterKeyId", "")) != key:
        yield Difference(
            kind="topic key",
            resource=one.physical,
            key="KmsMasterKeyId",
            wanted=key,
            found=found.get("KmsMasterKeyId"),
            remedy="deploy again",
        )


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
    if found.get("State", "ENABLED") != one.properties.get("State", "ENABLED"):
        yield Difference(
            kind="event rule disabled",
            resource=one.physical,
            key="State",
            wanted=one.properties.get("State", "ENABLED"),
            found=found.get("State"),
            remedy="nobody is told of rollbacks: enable it",
        )
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
    if found["KeyState"] != "Enabled":
        yield Difference(
            kind="key not usable",
            resource=one.physical,
            key="KeyState",
            wanted="Enabled",
            found=found["KeyState"],
            remedy="enable it, or cancel its deletion",
        )


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
        found = _or_nothing(s3.get_public_access_block, name, "PublicAccessBlockConfiguration")
        yield from changed("bucket open to the public", name, blocked, found, remedy)
    for rule in wanted.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", []):
        by_default = {"ApplyServerSideEncryptionByDefault": rule["ServerSideEncryptionByDefault"]}
        found = _or_nothing(s3.get_bucket_encryption, name, "ServerSideEncryptionConfiguration")
        there = (found.get("Rules") or [{}])[0]
        yield from changed("bucket encryption", name, by_default, there, remedy)


def _or_nothing(call: Callable[..., Any], bucket: str, key: str) -> dict[str, Any]:
    """S3 answers an error where it was taken away."""
    try:
        found: dict[str, Any] = call(Bucket=bucket)[key]
    except ClientError as error:
        if absent(error):
            return {}
        raise
    return found


Look = Callable[[Deployed, Resource], Iterator[Difference]]
_LOOKS: Mapping[str, Look] = {
    "AWS::Logs::LogGroup": _logs,
    "AWS::Logs::MetricFilter": _filter,
    "AWS::IAM::Role": permissions.role,
    "AWS::IAM::Policy": permissions.policy,
    "AWS::IAM::ManagedPolicy": permissions.managed_policy,
    "AWS::SNS::TopicPolicy": permissions.topic_policy,
    "AWS::SNS::Topic": _topic,
    "AWS::SNS::Subscription": _subscription,
    "AWS::Events::Rule": _rule,
    "AWS::KMS::Key": _key,
    "AWS::CloudWatch::Dashboard": _dashboard,
    "AWS::S3::Bucket": _bucket,
    "AWS::S3::BucketPolicy": permissions.bucket_policy,
}
