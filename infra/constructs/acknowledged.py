"""Accepts findings of cdk-nag's rule packs, each with its reason."""

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
import jsii
from constructs import Construct, IValidation

NIST, HIPAA, PCI = "NIST.800.53.R5", "HIPAA.Security", "PCI.DSS.321"
AUDITORS = (NIST, HIPAA, PCI)


def accept(construct: Construct, reasons: Mapping[str, str]) -> None:
    """Accept findings on a construct; `reasons` maps a finding's ID to its reason."""
    cdk.Validations.of(construct).acknowledge(
        *(cdk.Acknowledgment(id=rule, reason=reason) for rule, reason in reasons.items())
    )


def accept_for(packs: tuple[str, ...], construct: Construct, reasons: Mapping[str, str]) -> None:
    """Accept rules of several packs; `reasons` maps a rule's name in each pack to its reason."""
    every = {f"{pack}-{rule}": why for pack in packs for rule, why in reasons.items()}
    accept(construct, every)


def accept_wildcards(construct: Construct, reasons: Mapping[str, str]) -> None:
    """Accept wildcards in policies; `reasons` maps a statement's resource to its reason."""
    later = _Wildcards(construct, reasons)
    later.validate()
    construct.node.add_validation(later)


@jsii.implements(IValidation)
class _Wildcards:
    """A validation that accepts wildcard findings again at the end of synthesis.

    Only then does a resource of a different stack have the name of its export.
    """

    def __init__(self, construct: Construct, reasons: Mapping[str, str]) -> None:
        self._construct = construct
        self._reasons = {resource: why for resource, why in reasons.items() if "*" in resource}
        self._accepted: set[str] = set()

    def validate(self) -> list[str]:
        """Accept the findings whose names are new since the last call. Returns no errors."""
        stack = cdk.Stack.of(self._construct)
        found = {
            f"AwsSolutions-IAM5[Resource::{_format_resource(stack.resolve(resource))}]": reason
            for resource, reason in self._reasons.items()
        }
        accept(self._construct, {k: v for k, v in found.items() if k not in self._accepted})
        self._accepted |= found.keys()
        return []


def _format_resource(resolved: Any) -> str:
    """Return cdk-nag's name of a resolved resource. An imported resource has the name of its export."""
    if isinstance(resolved, str):
        return resolved
    ((function, argument),) = resolved.items()
    if function == "Fn::Join":
        return "".join(map(_format_resource, argument[1]))
    if function == "Fn::GetAtt":
        argument = ".".join(argument)
    return str(argument) if function == "Fn::ImportValue" else f"<{argument}>"
