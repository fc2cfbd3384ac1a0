"""Who may do what: roles, their policies, and those of topics."""

import json
from collections.abc import Iterator
from typing import Any

from servable.verify.deployed import Deployed, Resource
from servable.verify.difference import Difference
from servable.verify.endpoint import changed, gone
from servable.verify.resolving import UNKNOWN


def role(stack: Deployed, one: Resource) -> Iterator[Difference]:
    found = stack.account.client("iam").get_role(RoleName=one.physical)["Role"]
    wanted, now = one.properties["AssumeRolePolicyDocument"], found["AssumeRolePolicyDocument"]
    yield from document("role trust", one.physical, wanted, now)


def policy(stack: Deployed, one: Resource) -> Iterator[Difference]:
    iam = stack.account.client("iam")
    name = one.properties["PolicyName"]
    for role in one.properties.get("Roles", []):
        if role is UNKNOWN:
            continue
        found = iam.get_role_policy(RoleName=role, PolicyName=name)
        wanted = one.properties["PolicyDocument"]
        yield from document("role permissions", f"{role}/{name}", wanted, found["PolicyDocument"])


def document(kind: str, name: str, wanted: Any, found: Any) -> Iterator[Difference]:
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


def managed_policy(stack: Deployed, one: Resource) -> Iterator[Difference]:
    iam = stack.account.client("iam")
    iam.get_policy(PolicyArn=one.physical)
    there = iam.list_entities_for_policy(PolicyArn=one.physical, EntityFilter="Role")
    names = {role["RoleName"] for role in there["PolicyRoles"]}
    missing = {role for role in one.properties.get("Roles", []) if role is not UNKNOWN} - names
    if missing:
        yield gone("policy on role", f"{one.name}: {', '.join(sorted(missing))}")


def topic_policy(stack: Deployed, one: Resource) -> Iterator[Difference]:
    sns = stack.account.client("sns")
    for topic in one.properties["Topics"]:
        if topic is not UNKNOWN:
            found = sns.get_topic_attributes(TopicArn=topic)["Attributes"].get("Policy", "{}")
            yield from document("topic policy", topic, one.properties["PolicyDocument"], found)


def bucket_policy(stack: Deployed, one: Resource) -> Iterator[Difference]:
    name = one.properties["Bucket"]
    if name is UNKNOWN:
        return
    found = stack.account.client("s3").get_bucket_policy(Bucket=name)["Policy"]
    yield from document("bucket policy", name, one.properties["PolicyDocument"], found)
