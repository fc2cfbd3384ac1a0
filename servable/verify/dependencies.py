"""Compare the resources next to an endpoint, and their policies.

They are roles, logs, topics, rule, keys, dashboard, and buckets.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from servable.project.account import fetch_or_none, is_not_found
from servable.verify.deployed import UNKNOWN, DeployedStack, Resource
from servable.verify.difference import RESTORE, Difference, build_missing_difference, find_changes

ROLE, POLICY, MANAGED_POLICY = "AWS::IAM::Role", "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"
TRUST, PERMISSIONS, BOUNDARY = "role trust", "role permissions", "role boundary"


def compare_roles(stack: DeployedStack) -> Iterator[Difference]:
    """Compare every role and every policy of the stack with the deployed ones."""
    for resource in stack.find_resources(ROLE):
        yield from _compare_role(stack, resource)
    for resource in stack.find_resources(POLICY):
        yield from _compare_inline_policy(stack, resource)
    for resource in stack.find_resources(MANAGED_POLICY):
        yield from _compare_managed_policy(stack, resource)


def _compare_role(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    name, wanted = resource.physical, resource.properties
    live = fetch_or_none(stack.account.client("iam").get_role, RoleName=name)
    if live is None:
        yield build_missing_difference("IAM Role", name)
        return
    actual, key = live["Role"], "AssumeRolePolicyDocument"
    yield from compare_policies(TRUST, name, wanted[key], actual[key])
    if boundary := wanted.get("PermissionsBoundary"):
        there = actual.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn")
        expected, has = {"PermissionsBoundary": boundary}, {"PermissionsBoundary": there}
        yield from find_changes(
            BOUNDARY, name, expected, has, f"it was changed outside the stack; {RESTORE}"
        )
    for policy in wanted.get("Policies", []):
        yield from _compare_role_policy(stack, name, policy["PolicyName"], policy["PolicyDocument"])
    yield from _find_extra_inline_policies(stack, resource)
    yield from _compare_attached_policies(stack, resource)


def _compare_inline_policy(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    name, wanted = resource.properties["PolicyName"], resource.properties["PolicyDocument"]
    for role in resource.properties.get("Roles", []):
        if role is not UNKNOWN:
            yield from _compare_role_policy(stack, role, name, wanted)


def _compare_role_policy(
    stack: DeployedStack, role: str, name: str, wanted: Any
) -> Iterator[Difference]:
    get = stack.account.client("iam").get_role_policy
    actual = fetch_or_none(get, RoleName=role, PolicyName=name)
    if actual is None:
        yield build_missing_difference("IAM Policy", f"{role}/{name}")
    else:
        yield from compare_policies(PERMISSIONS, f"{role}/{name}", wanted, actual["PolicyDocument"])


def _find_extra_inline_policies(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    """Yield a difference for each inline policy of a role that the template doesn't have."""
    role = resource.physical
    own = {policy["PolicyName"] for policy in resource.properties.get("Policies", [])}
    own |= {policy.properties["PolicyName"] for policy in _find_role_policies(stack, POLICY, role)}
    there = stack.account.list_or_empty("iam", "list_role_policies", "PolicyNames", RoleName=role)
    for name in sorted(set(there) - own):
        yield _build_extra_policy(
            role, name, f"delete-role-policy --role-name {role} --policy-name {name}"
        )


def _compare_attached_policies(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    """Yield managed policies that were attached outside the template, and missing ones."""
    role = resource.physical
    stated = set(resource.properties.get("ManagedPolicyArns", []))
    own = stated | {policy.physical for policy in _find_role_policies(stack, MANAGED_POLICY, role)}
    listed = stack.account.list_or_empty(
        "iam", "list_attached_role_policies", "AttachedPolicies", RoleName=role
    )
    there = {policy["PolicyArn"] for policy in listed}
    for arn in sorted(stated - there - {UNKNOWN}):
        yield build_missing_difference("policy on role", f"{role}: {arn}")
    further = there - own
    # One of them may be the policy whose ARN only CloudFormation knows.
    if UNKNOWN in stated and len(further) == 1:
        return
    for arn in sorted(further):
        yield _build_extra_policy(
            role, arn, f"detach-role-policy --role-name {role} --policy-arn {arn}"
        )


def _find_role_policies(stack: DeployedStack, kind: str, role: str) -> Iterator[Resource]:
    """Return the stack's policies that list this role."""
    return (
        policy
        for policy in stack.find_resources(kind)
        if role in policy.properties.get("Roles", [])
    )


def _build_extra_policy(role: str, policy: str, command: str) -> Difference:
    found = "attached" if policy.startswith("arn:") else "an inline policy"
    remedy = f"the role's permissions were extended: `aws iam {command}`"
    return Difference(PERMISSIONS, role, remedy, policy, "no such policy", found)


def _compare_managed_policy(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    iam, arn = stack.account.client("iam"), resource.physical
    live = fetch_or_none(iam.get_policy, PolicyArn=arn)
    if live is None:
        yield build_missing_difference("IAM ManagedPolicy", resource.name)
        return
    version = iam.get_policy_version(PolicyArn=arn, VersionId=live["Policy"]["DefaultVersionId"])
    actual = version["PolicyVersion"]["Document"]
    yield from compare_policies(
        PERMISSIONS, resource.name, resource.properties["PolicyDocument"], actual
    )
    there = iam.list_entities_for_policy(PolicyArn=arn, EntityFilter="Role")
    names = {role["RoleName"] for role in there["PolicyRoles"]}
    missing = {role for role in resource.properties.get("Roles", []) if role is not UNKNOWN} - names
    for role in sorted(missing):
        yield build_missing_difference("policy on role", f"{role}: {arn}")


def compare_policies(kind: str, name: str, wanted: Any, actual: Any) -> Iterator[Difference]:
    """Compare two policy documents, and yield everything that only one of them has."""
    now = json.loads(actual) if isinstance(actual, str) else actual
    remedy = f"it was edited outside the stack; {RESTORE}"
    statements, there = (side.get("Statement", []) for side in (wanted, now))
    if len(statements) != len(there):
        counts = [f"{len(side)} statements" for side in (statements, there)]
        yield Difference(kind, name, remedy, "Statement", *counts)
        return
    yield from find_changes(kind, name, {"Statement": statements}, now, remedy)
    for at, (meant, statement) in enumerate(zip(statements, there, strict=True)):
        for path, value in _find_extra_keys(meant, statement, f"Statement[{at}]"):
            yield Difference(kind, name, remedy, path, found=value)


def _find_extra_keys(wanted: Any, actual: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of each key that only the actual mapping has."""
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        for key, value in actual.items():
            if key not in wanted:
                yield f"{path}.{key}", value
            else:
                yield from _find_extra_keys(wanted[key], value, f"{path}.{key}")


def compare_dependencies(stack: DeployedStack) -> Iterator[Difference]:
    for resource in stack.resources:
        if resource.type in _CHECKS:
            try:
                yield from _CHECKS[resource.type](stack, resource)
            except ClientError as error:
                if not is_not_found(error):
                    raise
                yield build_missing_difference(
                    resource.type.split("::", 1)[1].replace("::", " "), resource.name
                )


def _compare_log_group(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    name = resource.properties["LogGroupName"]
    groups = stack.account.iterate_items(
        "logs", "describe_log_groups", "logGroups", logGroupNamePrefix=name
    )
    log_group = next((group for group in groups if group["logGroupName"] == name), None)
    if log_group is None:
        yield build_missing_difference("log group", name)
        return
    days = resource.properties.get("RetentionInDays")
    wanted = {"RetentionInDays": days}
    now = {"RetentionInDays": log_group.get("retentionInDays", "for ever" if days else None)}
    remedy = f"it was changed outside the stack; {RESTORE}"
    yield from find_changes("log retention", name, wanted, now, remedy)
    key = resource.properties.get("KmsKeyId")
    now = {"KmsKeyId": log_group.get("kmsKeyId")}
    yield from find_changes("log key", name, {"KmsKeyId": key}, now, RESTORE)


def _compare_metric_filter(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    group = resource.properties["LogGroupName"]
    filters = stack.account.iterate_items(
        "logs", "describe_metric_filters", "metricFilters", logGroupName=group
    )
    wanted = resource.properties["FilterPattern"]
    if wanted not in [metric_filter.get("filterPattern") for metric_filter in filters]:
        yield build_missing_difference("metric filter", f"{group}: {resource.logical}")


def _compare_topic(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    actual = stack.account.client("sns").get_topic_attributes(TopicArn=resource.physical)[
        "Attributes"
    ]
    key = resource.properties.get("KmsMasterKeyId")
    wanted = {"KmsMasterKeyId": key} if key else {}
    yield from find_changes("topic key", resource.physical, wanted, actual, RESTORE)


def _compare_subscription(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    topic = resource.properties["TopicArn"]
    there = stack.account.iterate_items(
        "sns", "list_subscriptions_by_topic", "Subscriptions", TopicArn=topic
    )
    if resource.properties["Endpoint"] not in [subscription["Endpoint"] for subscription in there]:
        yield build_missing_difference(
            "subscription", f"{topic}: {resource.properties['Endpoint']}"
        )


def _compare_rule(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    events = stack.account.client("events")
    name = resource.physical.rsplit("/", 1)[-1]
    actual = events.describe_rule(Name=name)
    meant, state = (
        {"State": state_of.get("State", "ENABLED")} for state_of in (resource.properties, actual)
    )
    command = f"aws events enable-rule --name {name} --region {stack.account.region}"
    remedy = f"rollback notifications are off; enable them: `{command}`"
    yield from find_changes("event rule disabled", resource.physical, meant, state, remedy)
    wanted_pattern = resource.properties.get("EventPattern", {})
    remedy = f"it was edited outside the stack; {RESTORE}"
    pattern = json.loads(actual.get("EventPattern") or "{}")
    yield from find_changes("event pattern", resource.physical, wanted_pattern, pattern, remedy)
    targets = events.list_targets_by_rule(Rule=name)["Targets"]
    wanted = {target["Arn"] for target in resource.properties.get("Targets", [])} - {UNKNOWN}
    missing = wanted - {target["Arn"] for target in targets}
    if missing:
        yield build_missing_difference(
            "event target", f"{resource.physical}: {', '.join(sorted(missing))}"
        )


def _compare_key(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    actual = stack.account.client("kms").describe_key(KeyId=resource.physical)["KeyMetadata"]
    remedy = "enable the key, or cancel its deletion"
    yield from find_changes(
        "key not usable", resource.physical, {"KeyState": "Enabled"}, actual, remedy
    )


def _compare_dashboard(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    name = resource.physical.rsplit("/", 1)[-1]
    actual = stack.account.client("cloudwatch").get_dashboard(DashboardName=name)["DashboardBody"]
    wanted = resource.properties["DashboardBody"]
    if wanted is not UNKNOWN and json.loads(wanted) != json.loads(actual):
        remedy = f"{RESTORE}, or add it to infra/constructs"
        sides = {"wanted": "as in the template", "found": "edited"}
        yield Difference("dashboard changed", name, remedy, **sides)


def _compare_bucket(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    s3, name, wanted = stack.account.client("s3"), resource.physical, resource.properties
    s3.head_bucket(Bucket=name)
    if wanted.get("VersioningConfiguration", {}).get("Status") == "Enabled":
        actual = s3.get_bucket_versioning(Bucket=name)
        yield from find_changes("bucket versioning", name, {"Status": "Enabled"}, actual, RESTORE)
    if blocked := wanted.get("PublicAccessBlockConfiguration"):
        actual = fetch_or_none(s3.get_public_access_block, Bucket=name) or {}
        now = actual.get("PublicAccessBlockConfiguration", {})
        yield from find_changes("bucket open to the public", name, blocked, now, RESTORE)
    for rule in wanted.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", []):
        by_default = {"ApplyServerSideEncryptionByDefault": rule["ServerSideEncryptionByDefault"]}
        actual = fetch_or_none(s3.get_bucket_encryption, Bucket=name) or {}
        there = (actual.get("ServerSideEncryptionConfiguration", {}).get("Rules") or [{}])[0]
        yield from find_changes("bucket encryption", name, by_default, there, RESTORE)


def _compare_topic_policy(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    sns, wanted = stack.account.client("sns"), resource.properties["PolicyDocument"]
    for topic in resource.properties["Topics"]:
        if topic is not UNKNOWN:
            actual = sns.get_topic_attributes(TopicArn=topic)["Attributes"].get("Policy", "{}")
            yield from compare_policies("topic policy", topic, wanted, actual)


def _compare_bucket_policy(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    name = resource.properties["Bucket"]
    if name is UNKNOWN:
        return
    actual = stack.account.client("s3").get_bucket_policy(Bucket=name)["Policy"]
    yield from compare_policies(
        "bucket policy", name, resource.properties["PolicyDocument"], actual
    )


def _compare_state_machine(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    states, arn = stack.account.client("stepfunctions"), resource.physical
    definition = resource.properties["DefinitionString"]
    actual = states.describe_state_machine(stateMachineArn=arn)
    if definition is not UNKNOWN:
        wanted, now = json.loads(definition), json.loads(actual["definition"])
        for machine in (wanted, now):
            _lower_model_names(machine)
        remedy = f"it was edited outside the stack; {RESTORE}"
        yield from find_changes("batch changed", arn, wanted, now, remedy)


def _lower_model_names(value: Any) -> None:
    """Convert all model names in a state machine's definition to lower case, in place.

    The template's names are resolved from ARNs, which SageMaker writes in lower case.
    """
    if isinstance(value, dict) and isinstance(value.get("ModelName"), str):
        value["ModelName"] = value["ModelName"].lower()
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inside:
        _lower_model_names(each)


def _compare_schedule(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    wanted = resource.properties
    actual = stack.account.client("scheduler").get_schedule(
        Name=wanted["Name"], GroupName=wanted["Name"]
    )
    keys = ("ScheduleExpression", "ScheduleExpressionTimezone", "Target")
    meant = {"State": "ENABLED", **{key: wanted[key] for key in keys if key in wanted}}
    remedy = f"runs don't start as the file specifies; {RESTORE}"
    yield from find_changes("schedule changed", wanted["Name"], meant, actual, remedy)


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
}
