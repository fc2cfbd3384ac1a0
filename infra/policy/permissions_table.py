"""Writes docs/reference/permissions.md: the exact actions and resources of every capability."""

from collections.abc import Iterator

from infra.policy.permissions import KEY_PERMISSIONS, PERMISSIONS, PLACES, Permission

_HEAD = """\
# Permissions

Generated from infra/policy by `python scripts/generate.py`; do not edit.

Review every IAM permission that a deployment grants. [Pipelines](../pipelines.md) lists who may
deploy, and the roles of pipelines.

## The model's role

Every model has a role of its own, with one inline policy and no managed one. Only SageMaker may assume
it, and only for this account and region (ArnLike `aws:SourceArn`: `arn:aws:sagemaker:REGION:ACCOUNT:*`).
A row with a table or key of the environment file in brackets exists only with it; all others always exist.
A test compares each row with the synthesised role (tests/constructs/test_permissions.py).

| capability | actions | resource | condition | reason for a wildcard |
|---|---|---|---|---|
"""
_CALLERS = """
## Callers

The roles in `endpoint.callers` get `sagemaker:InvokeEndpoint` on the ARN of this endpoint, and on those of
its inference components, by one managed policy of the stack. With [asynchronous] they get
`sagemaker:InvokeEndpointAsync` on it instead, may put
objects under requests/ of the queue's bucket, read those under answers/ and failures/, and use its key.
The policy allows nothing else.

## Resource policies

The topics and the buckets of ENV/data deny every request without TLS (`aws:SecureTransport`). The
topics allow CloudWatch to publish for this account's alarms, and EventBridge to publish. The key of the
notifications allows both to use it for that; in the policy of a key, `*` means the key itself.

## Keys of your own

A key that the environment file names keeps its own policy, which must allow the following:

| key | principal | actions | condition |
|---|---|---|---|
"""


def markdown() -> str:
    rows = "\n".join(_row(permission) for permission in PERMISSIONS)
    keys = "\n".join(
        f"| `{row.key}` | {row.who} | {_listed(row.actions)} | {row.condition} |"
        for row in KEY_PERMISSIONS
    )
    return f"{_HEAD}{rows}\n{_CALLERS}{keys}\n"


def _row(permission: Permission) -> str:
    where = "; ".join(PLACES[place] for place in permission.on) or "`*`"
    condition = "; ".join(_conditions(permission)) or "none"
    why = permission.wildcard or "no wildcard"
    return f"| {permission.capability} | {_listed(permission.actions)} | {where} | {condition} | {why} |"


def _conditions(permission: Permission) -> Iterator[str]:
    for operator, by in permission.condition.items():
        for key, value in by.items():
            shown = " or ".join(
                f"`{part}`"
                for part in value.format(
                    prefix="PREFIX/", region="REGION", input="INPUT", trial="OUTPUT/servable-trial/"
                ).split(",")
            )
            yield f"{operator} `{key}`: {shown}"


def _listed(actions: tuple[str, ...]) -> str:
    return ", ".join(f"`{action}`" for action in actions)
