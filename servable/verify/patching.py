"""Can AWS patch the endpoint by itself? One verdict over the reasons for which it could not."""

import re
from collections.abc import Iterable

from servable.verify.deployed import DeployedStack
from servable.verify.difference import Difference
from servable.verify.golden import KIND as GOLDEN
from servable.verify.golden import NO_ANSWER
from servable.verify.resolving import UNKNOWN
from servable.verify.roles import BOUNDARY, PERMISSIONS, POLICY, ROLE, TRUST

MODEL = "AWS::SageMaker::Model"
# AWS's notice names four reasons:
# https://github.com/ministryofjustice/analytical-platform/issues/9863 (2026-11-22)
_CONFIG = ("endpoint configuration missing",)
_MODEL = ("model missing", "artefact missing", "artefact changed")
_ROLE = (
    "IAM Role missing",
    "IAM Policy missing",
    "policy on role missing",
    TRUST,
    PERMISSIONS,
    BOUNDARY,
)
_HEALTH = ("endpoint status", GOLDEN)
# Seen from outside, these two are not known before a container starts.
_NOT_SEEN = (
    "that the image is still in its registry, and that a new container starts, is not looked at"
)


def verdict(stack: DeployedStack, differences: Iterable[Difference]) -> str:
    """ "yes" with what was not looked at, or "no, because …" with every reason that was found."""
    # The names of the roles that SageMaker takes on.
    arns = [str(model.properties.get("ExecutionRoleArn", UNKNOWN)) for model in stack.of(MODEL)]
    roles = {arn.rsplit("/", 1)[-1] for arn in arns if arn != UNKNOWN}
    policies = {
        policy.name
        for policy in stack.of(POLICY)
        if roles & {str(role) for role in policy.properties.get("Roles", [])}
    }
    words = {_CONFIG: "configuration", _MODEL: "model", _ROLE: "execution role", _HEALTH: "health"}
    reasons = []
    for difference in differences:
        if difference.kind == GOLDEN and difference.wanted != NO_ANSWER:
            continue  # it answers: another value is no container that AWS would find unwell
        about = next((words[kinds] for kinds in words if difference.kind in kinds), None)
        # ROLE, ROLE/POLICY, or ROLE: ARN
        mine = re.split("[/:]", difference.resource)[0] in roles or difference.resource in policies
        if about is not None and (about != "execution role" or mine):
            reasons.append(f"{about}: {difference.kind} ({difference.resource})")
    if reasons:
        return f"no, because of its {'; '.join(dict.fromkeys(reasons))}"
    own = {role.physical for role in stack.of(ROLE)}
    unseen = [f"nor is {role}, which is not the stack's" for role in sorted(roles - own)]
    return "; ".join(["yes, as far as is seen from outside", _NOT_SEEN, *unseen])
