"""Everything that is wrong with an environment, in one go."""

from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.preflight.acknowledgements import acknowledged
from infra.preflight.placement import placements
from infra.preflight.rule import VariantRule
from infra.preflight.rules import RULES

__all__ = ["RULES", "check", "check_all", "errors"]


def check(loaded: Loaded) -> list[Finding]:
    """Problems of shape, and what every rule finds in the rest of the file.

    `loaded.environment` may be deployed when none of them is an error.
    """
    found = check_all(loaded)
    return [one for one in found if one.severity is not Severity.NOT_CHECKED]


def check_all(loaded: Loaded) -> list[Finding]:
    """As `check`, and what could not be checked for want of an input."""
    if loaded.draft is None:
        return list(loaded.findings)
    environment = loaded.draft
    placed = placements(loaded, environment)
    found: list[Finding] = []
    for rule in RULES:
        if isinstance(rule, VariantRule):
            found += rule.check_placed(loaded, environment, placed)
        else:
            found += rule.check(loaded, environment)
    # What has a problem of shape is out of the draft: what follows from its absence is no news.
    shape = [finding.key for finding in loaded.findings]
    new = [
        one
        for one in found
        if not any(_touch(key, problem) for key in (one.key, *one.reads) for problem in shape)
    ]
    # Two variants of one model say the same of it: once is enough.
    new = list({(one.rule, one.key, str(one)): one for one in new}.values())
    accepting = [rule.id for rule in RULES if rule.acknowledgeable]
    return [*loaded.findings, *acknowledged(loaded, environment, new, accepting)]


def _touch(key: str, problem: str) -> bool:
    """The same key, or one inside the other."""
    return f"{key}.".startswith(f"{problem}.") or f"{problem}.".startswith(f"{key}.")


def errors(findings: list[Finding]) -> list[Finding]:
    """Those that stop a deployment."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]
