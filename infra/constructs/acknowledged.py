"""Findings of cdk-nag's rule packs that are accepted on purpose, each with its reason."""

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from constructs import Construct

NIST, HIPAA, PCI = "NIST.800.53.R5", "HIPAA.Security", "PCI.DSS.321"
AUDITORS = (NIST, HIPAA, PCI)


def accept(construct: Construct, reasons: Mapping[str, str]) -> None:
    """`reasons`: by the id of the finding."""
    cdk.Validations.of(construct).acknowledge(
        *(cdk.Acknowledgment(id=rule, reason=reason) for rule, reason in reasons.items())
    )


def accept_for(packs: tuple[str, ...], construct: Construct, reasons: Mapping[str, str]) -> None:
    """`reasons`: by the name that a rule has in each of these packs."""
    accept(
        construct,
        {f"{pack}-{rule}": reason for pack in packs for rule, reason in reasons.items()},
    )


def accept_wildcards(construct: Construct, reasons: Mapping[str, str]) -> None:
    """`reasons`: by the resource of a policy's statement; one without a star is no finding."""
    stack = cdk.Stack.of(construct)
    accept(
        construct,
        {
            f"AwsSolutions-IAM5[Resource::{_flat(stack.resolve(resource))}]": reason
            for resource, reason in reasons.items()
            if "*" in resource
        },
    )


def _flat(resolved: Any) -> str:
    """As cdk-nag names a resource: what is imported by its export's name."""
    if isinstance(resolved, str):
        return resolved
    ((function, argument),) = resolved.items()
    return "".join(map(_flat, argument[1])) if function == "Fn::Join" else str(argument)
