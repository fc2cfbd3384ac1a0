"""cdk-nag's rule packs, by the names that `-c nag=…` accepts."""

from collections.abc import Callable

import aws_cdk as cdk
import cdk_nag
from constructs import Construct

_PACKS: dict[str, Callable[..., cdk_nag.NagPack]] = {
    "AwsSolutions": cdk_nag.AwsSolutionsChecks,
    "NIST80053R5": cdk_nag.NIST80053R5Checks,
    "HIPAASecurity": cdk_nag.HIPAASecurityChecks,
    "PCIDSS321": cdk_nag.PCIDSS321Checks,
}


def add_rule_packs(app: Construct, chosen: str) -> None:
    """Add the packs in `chosen` (a,b; "true": AwsSolutions). Raise KeyError if unknown."""
    names = ["AwsSolutions"] if chosen == "true" else chosen.split(",")
    packs = [_PACKS[name](app, verbose=True) for name in names]
    cdk.Validations.of(app).add_plugins(*packs)
