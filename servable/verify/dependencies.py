"""Compare the resources next to an endpoint: roles, logs, topics, rule, keys, dashboard, buckets."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from servable.project.account import is_not_found
from servable.verify.deployed import UNKNOWN, DeployedStack, Resource
from servable.verify.difference import RESTORE, Difference, build_missing_difference, find_changes

ROLE, POLICY, MANAGED_POLICY = "AWS::IAM::Role", "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"
TRUST, PERMISSIONS, BOUNDARY = "role trust", "role permissions", "role boundary"
_CHANGED = f"it was changed outside the stack; {RESTORE}"
_EDITED = f"it was edited outside the stack; {RESTORE}"


def compare_dependencies(stack: DeployedStack) -> Iterator[Difference]:
    """Compare every resource of the stack that `_CHECKS` lists with the deployed one."""
    for resource in stack.resources:
        if resource.type in _CHECKS:
            try:
                yield from _CHECKS[resource.type](stack, resource)
            except ClientError as error:
                if not is_not_found(error):
                    raise
                what = resource.type.split("::", 1)[1].replace("::", " ")
                yield build_missing_difference(what, resource.name)


def _compare_role(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    account, role, wanted = stack.account, resource.physical, resource.properties
    actual, key = account.client("iam").get_role(RoleName=role)["Role"], "AssumeRolePolicyDocument"
    yield from compare_policies(TRUST, role, wanted[key], actual[key])
    if boundary := wanted.get("PermissionsBoundary"):
        now = actual.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn")
        yield from find_changes(BOUNDARY, role, boundary, now, _CHANGED, "PermissionsBoundary")
    inline = wanted.get("Policies", [])
    for policy in inline:
        yield from _compare_role_policy(stack, role, policy)
    of_stack = [policy.properties for policy in _find_role_policies(stack, POLICY, role)]
    own = {policy["PolicyName"] for policy in (*inline, *of_stack)}
    there = account.list_or_empty("iam", "list_role_policies", "PolicyNames", RoleName=role)
    for name in sorted(set(there) - own):
        command = f"delete-role-policy --role-name {role} --policy-name {name}"
        yield _build_extra_policy(role, name, "an inline policy", command)
    yield from _compare_attached_policies(stack, resource)


def _compare_attached_policies(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    """Yield managed policies that were attached outside the template, and missing ones."""
    role, stated = resource.physical, set(resource.properties.get("ManagedPolicyArns", []))
    own = stated | {policy.physical for policy in _find_role_policies(stack, MANAGED_POLICY, role)}
    listing = ("iam", "list_attached_role_policies", "AttachedPolicies")
    listed = stack.account.list_or_empty(*listing, RoleName=role)
    there = {policy["PolicyArn"] for policy in listed}
    for arn in sorted(stated - there - {UNKNOWN}):
        yield build_missing_difference("policy on role", f"{role}: {arn}")
    further = there - own
    # One of them may be the policy whose ARN only CloudFormation knows.
    if UNKNOWN in stated and len(further) == 1:
        return
    for arn in sorted(further):
        command = f"detach-role-policy --role-name {role} --policy-arn {arn}"
        yield _build_extra_policy(role, arn, "attached", command)


def _find_role_policies(stack: DeployedStack, kind: str, role: str) -> list[Resource]:
    """Return the stack's policies that list this role."""
    return [each for each in stack.find_resources(kind) if role in each.properties.get("Roles", [])]


def _build_extra_policy(role: str, policy: str, found: str, command: str) -> Difference:
    remedy = f"the role's permissions were extended: `aws iam {command}`"
    return Difference(PERMISSIONS, role, remedy, policy, "no such policy", found)


def _list_known_roles(policy: Resource) -> list[str]:
    return [role for role in policy.properties.get("Roles", []) if role is not UNKNOWN]


def _compare_inline_policy(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    for role in _list_known_roles(resource):
        yield from _compare_role_policy(stack, role, resource.properties)


def _compare_role_policy(
    stack: DeployedStack, role: str, policy: Mapping[str, Any]
) -> Iterator[Difference]:
    name = policy["PolicyName"]
    actual = stack.fetch("iam", "get_role_policy", RoleName=role, PolicyName=name)
    if actual is None:
        yield build_missing_difference("IAM Policy", f"{role}/{name}")
    else:
        meant, now = policy["PolicyDocument"], actual["PolicyDocument"]
        yield from compare_policies(PERMISSIONS, f"{role}/{name}", meant, now)


def _compare_managed_policy(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    iam, arn = stack.account.client("iam"), resource.physical
    default = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
    actual = iam.get_policy_version(PolicyArn=arn, VersionId=default)["PolicyVersion"]["Document"]
    wanted = resource.properties["PolicyDocument"]
    yield from compare_policies(PERMISSIONS, resource.name, wanted, actual)
    there = iam.list_entities_for_policy(PolicyArn=arn, EntityFilter="Role")["PolicyRoles"]
    for role in sorted(set(_list_known_roles(resource)) - {each["RoleName"] for each in there}):
        yield build_missing_difference("policy on role", f"{role}: {arn}")


def compare_policies(kind: str, name: str, wanted: Any, actual: Any) -> Iterator[Difference]:
    """Compare two policy documents, and yield everything that only one of them has."""
    now = json.loads(actual) if isinstance(actual, str) else actual
    statements, there = (side.get("Statement", []) for side in (wanted, now))
    if len(statements) != len(there):
        counts = [f"{len(side)} statements" for side in (statements, there)]
        yield Difference(kind, name, _EDITED, "Statement", *counts)
        return
    yield from find_changes(kind, name, statements, there, _EDITED, "Statement")
    for at, (meant, statement) in enumerate(zip(statements, there, strict=True)):
        for path, value in _find_extra_keys(meant, statement, f"Statement[{at}]"):
            yield Difference(kind, name, _EDITED, path, found=value)


def _find_extra_keys(wanted: Any, actual: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of each key that only the actual mapping has."""
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        for key, value in actual.items():
            if key not in wanted:
                yield f"{path}.{key}", value
            else:
                yield from _find_extra_keys(wanted[key], value, f"{path}.{key}")


def _compare_log_group(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    name, wanted = resource.properties["LogGroupName"], resource.properties
    listing = ("logs", "describe_log_groups", "logGroups")
    groups = stack.account.iterate_items(*listing, logGroupNamePrefix=name)
    log_group = next((group for group in groups if group["logGroupName"] == name), None)
    if log_group is None:
        yield build_missing_difference("log group", name)
        return
    days = wanted.get("RetentionInDays")
    now = log_group.get("retentionInDays", "for ever" if days else None)
    yield from find_changes("log retention", name, days, now, _CHANGED, "RetentionInDays")
    keys = wanted.get("KmsKeyId"), log_group.get("kmsKeyId")
    yield from find_changes("log key", name, *keys, key="KmsKeyId")


def _compare_metric_filter(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    group, wanted = (resource.properties[key] for key in ("LogGroupName", "FilterPattern"))
    listing = ("logs", "describe_metric_filters", "metricFilters")
    filters = stack.account.iterate_items(*listing, logGroupName=group)
    if wanted not in [metric_filter.get("filterPattern") for metric_filter in filters]:
        yield build_missing_difference("metric filter", f"{group}: {resource.logical}")


def _compare_topic(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    topic, key = resource.physical, resource.properties.get("KmsMasterKeyId")
    actual = stack.account.client("sns").get_topic_attributes(TopicArn=topic)["Attributes"]
    yield from find_changes("topic key", topic, {"KmsMasterKeyId": key} if key else {}, actual)


def _compare_topic_policy(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    sns, wanted = stack.account.client("sns"), resource.properties["PolicyDocument"]
    for topic in resource.properties["Topics"]:
        if topic is not UNKNOWN:
            actual = sns.get_topic_attributes(TopicArn=topic)["Attributes"].get("Policy", "{}")
            yield from compare_policies("topic policy", topic, wanted, actual)


def _compare_subscription(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    topic, wanted = (resource.properties[key] for key in ("TopicArn", "Endpoint"))
    listing = ("sns", "list_subscriptions_by_topic", "Subscriptions")
    there = stack.account.iterate_items(*listing, TopicArn=topic)
    if wanted not in [subscription["Endpoint"] for subscription in there]:
        yield build_missing_difference("subscription", f"{topic}: {wanted}")


def _compare_rule(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    events, wanted, rule = stack.account.client("events"), resource.properties, resource.physical
    name = rule.rsplit("/", 1)[-1]
    actual = events.describe_rule(Name=name)
    command = f"aws events enable-rule --name {name} --region {stack.account.region}"
    remedy = f"rollback notifications are off; enable them: `{command}`"
    meant, state = (side.get("State", "ENABLED") for side in (wanted, actual))
    yield from find_changes("event rule disabled", rule, meant, state, remedy, "State")
    pattern = json.loads(actual.get("EventPattern") or "{}")
    yield from find_changes("event pattern", rule, wanted.get("EventPattern", {}), pattern, _EDITED)
    there = {target["Arn"] for target in events.list_targets_by_rule(Rule=name)["Targets"]}
    targets = {target["Arn"] for target in wanted.get("Targets", [])}
    if missing := targets - there - {UNKNOWN}:
        yield build_missing_difference("event target", f"{rule}: {', '.join(sorted(missing))}")


def _compare_key(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    actual = stack.account.client("kms").describe_key(KeyId=resource.physical)["KeyMetadata"]
    remedy, wanted = "enable the key, or cancel its deletion", {"KeyState": "Enabled"}
    yield from find_changes("key not usable", resource.physical, wanted, actual, remedy)


def _compare_dashboard(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    name, wanted = resource.physical.rsplit("/", 1)[-1], resource.properties["DashboardBody"]
    actual = stack.account.client("cloudwatch").get_dashboard(DashboardName=name)["DashboardBody"]
    if wanted is not UNKNOWN and json.loads(wanted) != json.loads(actual):
        remedy = f"{RESTORE}, or add it to infra/constructs"
        sides = {"wanted": "as in the template", "found": "edited"}
        yield Difference("dashboard changed", name, remedy, **sides)


def _compare_bucket(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    s3, name, wanted = stack.account.client("s3"), resource.physical, resource.properties
    s3.head_bucket(Bucket=name)
    if wanted.get("VersioningConfiguration", {}).get("Status") == "Enabled":
        actual = s3.get_bucket_versioning(Bucket=name)
        yield from find_changes("bucket versioning", name, {"Status": "Enabled"}, actual)
    if blocked := wanted.get("PublicAccessBlockConfiguration"):
        actual = stack.fetch("s3", "get_public_access_block", Bucket=name) or {}
        now = actual.get("PublicAccessBlockConfiguration", {})
        yield from find_changes("bucket open to the public", name, blocked, now)
    for rule in wanted.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", []):
        by_default = {"ApplyServerSideEncryptionByDefault": rule["ServerSideEncryptionByDefault"]}
        actual = stack.fetch("s3", "get_bucket_encryption", Bucket=name) or {}
        there = (actual.get("ServerSideEncryptionConfiguration", {}).get("Rules") or [{}])[0]
        yield from find_changes("bucket encryption", name, by_default, there)


def _compare_bucket_policy(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    name, wanted = (resource.properties[key] for key in ("Bucket", "PolicyDocument"))
    if name is not UNKNOWN:
        actual = stack.account.client("s3").get_bucket_policy(Bucket=name)["Policy"]
        yield from compare_policies("bucket policy", name, wanted, actual)


def _compare_state_machine(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    states, arn = stack.account.client("stepfunctions"), resource.physical
    wanted = resource.properties["DefinitionString"]
    actual = states.describe_state_machine(stateMachineArn=arn)["definition"]
    if wanted is not UNKNOWN:
        meant, now = (json.loads(text, object_hook=_lower_model_name) for text in (wanted, actual))
        yield from find_changes("batch changed", arn, meant, now, _EDITED)


def _lower_model_name(table: dict[str, Any]) -> dict[str, Any]:
    """Convert the model name in a part of a state machine's definition to lower case.

    The template's names are resolved from ARNs, which SageMaker writes in lower case.
    """
    name = table.get("ModelName")
    return table | {"ModelName": name.lower()} if isinstance(name, str) else table


def _compare_schedule(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    wanted, name = resource.properties, resource.properties["Name"]
    actual = stack.account.client("scheduler").get_schedule(Name=name, GroupName=name)
    keys = ("ScheduleExpression", "ScheduleExpressionTimezone", "Target")
    meant = {"State": "ENABLED", **{key: wanted[key] for key in keys if key in wanted}}
    remedy = f"runs don't start as the file specifies; {RESTORE}"
    yield from find_changes("schedule changed", name, meant, actual, remedy)


_CHECKS: Mapping[str, Callable[[DeployedStack, Resource], Iterator[Difference]]] = {
    "AWS::StepFunctions::StateMachine": _compare_state_machine,
    "AWS::Scheduler::Schedule": _compare_schedule,
    "AWS::Logs::LogGroup": _compare_log_group,
    "AWS::Logs::MetricFilter": _compare_metric_filter,
    "AWS::SNS::TopicPolicy": _compare_topic_policy,
    "AWS::SNS::Topic": _compare_topic,
    "AWS::SNS::Subscription": _compare_subscription,
    "AWS::Events::Rule": _compare_rule,
    "AWS::KMS::Key": _compare_key,
    "AWS::CloudWatch::Dashboard": _compare_dashboard,
    "AWS::S3::Bucket": _compare_bucket,
    "AWS::S3::BucketPolicy": _compare_bucket_policy,
    ROLE: _compare_role,
    POLICY: _compare_inline_policy,
    MANAGED_POLICY: _compare_managed_policy,
}
