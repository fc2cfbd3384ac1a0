"""What a container may do: read its archive and image, write its logs and metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.model.archive import Archive
from infra.constructs.model.role_places import RolePlaces
from infra.policy.permissions import Permission, granted

INLINE = "IAMNoInlinePolicy"
PACKS = ("NIST.800.53.R5", "HIPAA.Security", "PCI.DSS.321")
WHY_INLINE = (
    "it belongs to this role and this archive alone, and must go with them: a managed policy "
    "could be put on another role"
)


class ExecutionRole(Construct):
    """The role SageMaker takes on for one model, and its policy; no managed one.

    A model depends on the policy too: it reads the archive when it is created.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, archive: Archive, places: RolePlaces
    ) -> None:
        super().__init__(scope, construct_id)
        known = places.of(archive)
        prefix = archive.listed.name if archive.listed else ""
        self.role = iam.Role(
            self, "Resource", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com")
        )
        permissions = granted(known)
        # Another archive, another policy beside the first, which goes when the update is through:
        # until then the old fleet still reads its own archive when it adds an instance.
        self.policy = iam.Policy(
            self,
            f"Policy{archive.fingerprint[:8]}",
            roles=[self.role],
            statements=[_statement(one, known, prefix, places.conditions) for one in permissions],
        )
        _acknowledge(self.policy, permissions, known, places.stack)


def _statement(
    permission: Permission,
    places: Mapping[str, Sequence[str]],
    prefix: str,
    more: Mapping[str, Mapping[str, Mapping[str, object]]],
) -> iam.PolicyStatement:
    conditions: dict[str, dict[str, object]] = {
        operator: {key: value.replace("{prefix}", prefix).split(",") for key, value in by.items()}
        for operator, by in permission.condition.items()
    }
    for place in permission.on:
        for operator, by in more.get(place, {}).items():
            conditions.setdefault(operator, {}).update(by)
    return iam.PolicyStatement(
        actions=list(permission.actions),
        resources=_resources(permission, places),
        conditions=conditions or None,
    )


def _resources(permission: Permission, places: Mapping[str, Sequence[str]]) -> list[str]:
    return [arn for place in permission.on for arn in places[place]] or ["*"]


def _acknowledge(
    policy: iam.Policy,
    permissions: Sequence[Permission],
    places: Mapping[str, Sequence[str]],
    stack: cdk.Stack,
) -> None:
    """Every wildcard, to cdk-nag, with all the reasons for it."""
    reasons: dict[str, list[str]] = {}
    for permission in permissions:
        for resource in _resources(permission, places):
            if "*" in resource:
                assert permission.wildcard is not None, f"{permission.capability}: no reason"
                reasons.setdefault(flat(stack.resolve(resource)), []).append(permission.wildcard)
    accepted = {
        **{
            f"AwsSolutions-IAM5[Resource::{shown}]": "; ".join(why)
            for shown, why in reasons.items()
        },
        **{f"{pack}-{INLINE}": WHY_INLINE for pack in PACKS},
    }
    cdk.Validations.of(policy).acknowledge(
        *(cdk.Acknowledgment(id=rule, reason=reason) for rule, reason in accepted.items())
    )


def flat(resolved: Any) -> str:
    """As cdk-nag names a resource: what is imported by its export's name."""
    if isinstance(resolved, str):
        return resolved
    ((function, argument),) = resolved.items()
    return "".join(map(flat, argument[1])) if function == "Fn::Join" else str(argument)
