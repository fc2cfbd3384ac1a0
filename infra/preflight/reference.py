"""Write docs/reference/rules.md and permissions.md.

The rules come from their docstrings, remedies, and examples; permissions are the exact actions and resources
of every capability.
"""

import re
from collections.abc import Iterator

from infra.parameters.finding import Severity
from infra.policy.permissions import KEY_PERMISSIONS, PERMISSIONS, PLACES, Permission
from infra.preflight.check import RULES
from infra.preflight.rule import Rule

_RULES_HEAD = """\
# Every rule

Generated from the rules in infra/preflight by `python scripts/generate.py`; do not edit.

Look up a finding of `servable check`. `cdk synth` and `cdk deploy` report the same findings and stop only
the stacks that have an error. A rule that lacks an input counts as *not checked*, never as passed:
`--against REF` gives the deployed revision, `[traffic]` the callers' requests, `artifact.size_gib` an
archive's size.
[Verdicts](../verdicts.md) says what no rule can see, and [beyond-linters.md](beyond-linters.md) which faults
template linters find. [Parameters](parameters.md) lists the keys; environments/schema.json has their bounds.

You can accept a warning, and an error marked *acceptable*, with a reason of at least ten characters. If the
finding names a file, name it too:

    [acknowledge]
    instance-retired = "moves to ml.g4dn.xlarge with the next model"
    "code-holds-secrets:code/.env" = "holds log levels only"

In a fix, "it" is the key that the finding names, and "those" are the values that it lists. A rule without a
fix here has one in its finding. The image is that of TensorFlow 2.20 or earlier, unless a rule names one.
"""
_ADDRESS = re.compile(r"https://[^\s;,]+")
_NOTES = re.compile(r"\s*\([^()]*\)|,? (?:read )?2\d{3}-\d\d(?:-\d\d)?")


def render_rules() -> str:
    """Return the text of docs/reference/rules.md."""
    return _RULES_HEAD + "".join(f"\n## {rule.id}\n\n{_describe_rule(rule)}\n" for rule in RULES)


def _describe_rule(rule: type[Rule]) -> str:
    """Return the severity, meaning, fix, example, and source of a rule, in one paragraph."""
    severity = "Error, acceptable" if rule.acknowledgeable else "Error"
    if rule.severity is Severity.WARNING:
        severity = "Warning"
    parts = [f"{severity}. {rule.read_reason()}"]
    if rule.remedy:
        remedy = rule.remedy.replace("{self.id}", rule.id)
        remedy = re.sub(r"\{(?:[\w.]+\.)?(\w+)\}", lambda match: match[1].upper(), remedy)
        parts.append(f"Fix: {remedy}.")
    if rule.example:
        parts.append(f"Example: `{rule.example}`.")
    if source := _NOTES.sub("", rule.read_source()):
        parts.append(f"[Source]({source})." if _ADDRESS.fullmatch(source) else f"Source: {source}.")
    return " ".join(parts)


_PERMISSIONS_HEAD = """\
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


def render_permissions() -> str:
    rows = "\n".join(_render_row(permission) for permission in PERMISSIONS)
    keys = "\n".join(
        f"| `{row.key}` | {row.who} | {_format_actions(row.actions)} | {row.condition} |"
        for row in KEY_PERMISSIONS
    )
    return f"{_PERMISSIONS_HEAD}{rows}\n{_CALLERS}{keys}\n"


def _render_row(permission: Permission) -> str:
    where = "; ".join(PLACES[place] for place in permission.on) or "`*`"
    condition = "; ".join(_render_conditions(permission)) or "none"
    cells = permission.capability, _format_actions(permission.actions), where, condition
    return f"| {' | '.join(cells)} | {permission.wildcard or 'no wildcard'} |"


def _render_conditions(permission: Permission) -> Iterator[str]:
    names = {"prefix": "PREFIX/", "region": "REGION", "input": "INPUT"}
    for operator, by in permission.condition.items():
        for key, value in by.items():
            stated = value.format(**names, trial="OUTPUT/servable-trial/").split(",")
            yield f"{operator} `{key}`: {' or '.join(f'`{part}`' for part in stated)}"


def _format_actions(actions: tuple[str, ...]) -> str:
    return ", ".join(f"`{action}`" for action in actions)
