"""The stack's roles: trust, boundary, and every inline and attached policy."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from servable.project.account import unless_absent
from servable.verify.deployed import DeployedStack, Resource
from servable.verify.difference import RESTORE, Difference, changed, gone
from servable.verify.resolving import UNKNOWN

ROLE, POLICY, MANAGED_POLICY = "AWS::IAM::Role", "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"
TRUST, PERMISSIONS, BOUNDARY = "role trust", "role permissions", "role boundary"


def look(stack: DeployedStack) -> Iterator[Difference]:
    """Compare every role and every policy of the stack with those that are live."""
    for resource in stack.of(ROLE):
        yield from _role(stack, resource)
    for resource in stack.of(POLICY):
        yield from _inline_policy(stack, resource)
    for resource in stack.of(MANAGED_POLICY):
        yield from _managed_policy(stack, resource)


def _role(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    name, wanted = resource.physical, resource.properties
    live = unless_absent(stack.account.client("iam").get_role, RoleName=name)
    if live is None:
        yield gone("IAM Role", name)
        return
    actual, key = live["Role"], "AssumeRolePolicyDocument"
    yield from document(TRUST, name, wanted[key], actual[key])
    if boundary := wanted.get("PermissionsBoundary"):
        there = actual.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn")
        expected, has = {"PermissionsBoundary": boundary}, {"PermissionsBoundary": there}
        yield from changed(BOUNDARY, name, expected, has, f"somebody changed it; {RESTORE}")
    for policy in wanted.get("Policies", []):
        yield from _inline_on(stack, name, policy["PolicyName"], policy["PolicyDocument"])
    yield from _further_inline(stack, resource)
    yield from _attached(stack, resource)


def _inline_policy(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    name, wanted = resource.properties["PolicyName"], resource.properties["PolicyDocument"]
    for role in resource.properties.get("Roles", []):
        if role is not UNKNOWN:
            yield from _inline_on(stack, role, name, wanted)


def _inline_on(stack: DeployedStack, role: str, name: str, wanted: Any) -> Iterator[Difference]:
    get = stack.account.client("iam").get_role_policy
    actual = unless_absent(get, RoleName=role, PolicyName=name)
    if actual is None:
        yield gone("IAM Policy", f"{role}/{name}")
    else:
        yield from document(PERMISSIONS, f"{role}/{name}", wanted, actual["PolicyDocument"])


def _further_inline(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    """Yield the inline policies of a role that the template doesn't have."""
    role = resource.physical
    own = {policy["PolicyName"] for policy in resource.properties.get("Policies", [])}
    own |= {policy.properties["PolicyName"] for policy in _naming(stack, POLICY, role)}
    there = stack.account.all_unless_absent(
        "iam", "list_role_policies", "PolicyNames", RoleName=role
    )
    for name in sorted(set(there) - own):
        yield _widened(role, name, f"delete-role-policy --role-name {role} --policy-name {name}")


def _attached(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    """Yield managed policies that are attached outside the template, and those that are missing."""
    role = resource.physical
    stated = set(resource.properties.get("ManagedPolicyArns", []))
    own = stated | {policy.physical for policy in _naming(stack, MANAGED_POLICY, role)}
    listed = stack.account.all_unless_absent(
        "iam", "list_attached_role_policies", "AttachedPolicies", RoleName=role
    )
    there = {policy["PolicyArn"] for policy in listed}
    for arn in sorted(stated - there - {UNKNOWN}):
        yield gone("policy on role", f"{role}: {arn}")
    further = there - own
    # One of them may be the policy whose ARN only CloudFormation knows.
    if UNKNOWN in stated and len(further) == 1:
        return
    for arn in sorted(further):
        yield _widened(role, arn, f"detach-role-policy --role-name {role} --policy-arn {arn}")


def _naming(stack: DeployedStack, kind: str, role: str) -> Iterator[Resource]:
    """Return the policies of the stack that name this role."""
    return (policy for policy in stack.of(kind) if role in policy.properties.get("Roles", []))


def _widened(role: str, policy: str, command: str) -> Difference:
    return Difference(
        kind=PERMISSIONS,
        resource=role,
        key=policy,
        wanted="no such policy",
        found="attached" if policy.startswith("arn:") else "an inline policy",
        remedy=f"somebody widened the role: `aws iam {command}`",
    )


def _managed_policy(stack: DeployedStack, resource: Resource) -> Iterator[Difference]:
    iam, arn = stack.account.client("iam"), resource.physical
    live = unless_absent(iam.get_policy, PolicyArn=arn)
    if live is None:
        yield gone("IAM ManagedPolicy", resource.name)
        return
    version = iam.get_policy_version(PolicyArn=arn, VersionId=live["Policy"]["DefaultVersionId"])
    actual = version["PolicyVersion"]["Document"]
    yield from document(PERMISSIONS, resource.name, resource.properties["PolicyDocument"], actual)
    there = iam.list_entities_for_policy(PolicyArn=arn, EntityFilter="Role")
    names = {role["RoleName"] for role in there["PolicyRoles"]}
    missing = {role for role in resource.properties.get("Roles", []) if role is not UNKNOWN} - names
    for role in sorted(missing):
        yield gone("policy on role", f"{role}: {arn}")


def document(kind: str, name: str, wanted: Any, actual: Any) -> Iterator[Difference]:
    """Compare two policies; whatever one has and the other lacks is a difference."""
    now = json.loads(actual) if isinstance(actual, str) else actual
    remedy = f"somebody edited it; {RESTORE}"
    statements, there = (side.get("Statement", []) for side in (wanted, now))
    if len(statements) != len(there):
        yield Difference(
            kind=kind,
            resource=name,
            key="Statement",
            wanted=f"{len(statements)} statements",
            found=f"{len(there)} statements",
            remedy=remedy,
        )
        return
    yield from changed(kind, name, {"Statement": statements}, now, remedy)
    for at, (meant, statement) in enumerate(zip(statements, there, strict=True)):
        for path, value in _further(meant, statement, f"Statement[{at}]"):
            yield Difference(kind=kind, resource=name, key=path, found=value, remedy=remedy)


def _further(wanted: Any, actual: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of each key that only the actual mapping has."""
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        for key, value in actual.items():
            if key not in wanted:
                yield f"{path}.{key}", value
            else:
                yield from _further(wanted[key], value, f"{path}.{key}")
