"""Checks an environment: all findings in one run, with those that [acknowledge] accepts marked."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from infra.parameters.finding import Finding, Severity, suggest_name
from infra.parameters.loading import Loaded
from infra.preflight.rule import Candidate, discover_rules

RULES = discover_rules()
# What is updated and scaled: no rule about a file of batches alone.
_OF_ENDPOINTS = ("infra.preflight.rollout.", "infra.preflight.scaling.")


def check(loaded: Loaded) -> list[Finding]:
    """Return the findings about invalid keys, and those of every rule in the rest of the file.

    The file may be deployed if none of them is an error.
    """
    findings = check_all(loaded)
    return [finding for finding in findings if finding.severity is not Severity.NOT_CHECKED]


def check_all(loaded: Loaded) -> list[Finding]:
    """Return the findings of `check`, and those of rules that lack an input."""
    if loaded.draft is None:
        return list(loaded.findings)
    candidate = Candidate(loaded, loaded.draft)
    invalid_keys = [finding.key for finding in loaded.findings]
    findings = {}
    for rule in RULES:
        if not candidate.environment.variants and rule.__module__.startswith(_OF_ENDPOINTS):
            continue
        for finding in rule(candidate).check():
            # Invalid keys are missing in the draft: findings that follow from their absence are dropped.
            keys = (finding.key, *finding.reads)
            if not any(_has_overlap(key, invalid) for key in keys for invalid in invalid_keys):
                # Two variants of one model give the same finding about it: once is enough.
                finding = loaded.source.attach_variable(finding)
                findings[finding.rule, finding.key, str(finding)] = finding
    return [*loaded.findings, *_mark_acknowledged(candidate, list(findings.values()))]


def select_errors(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that stop a deployment."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def _has_overlap(key: str, other: str) -> bool:
    """Return whether the keys are equal, or one is inside the other."""
    return f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}.")


def _mark_acknowledged(candidate: Candidate, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield findings, accepted ones marked, and one for each entry that accepts nothing."""
    loaded, accepted = candidate.loaded, candidate.environment.acknowledge
    unused = dict(accepted)
    for finding in findings:
        reason = accepted.get(finding.acknowledgement)
        if finding.acknowledgeable and reason is not None:
            unused.pop(finding.acknowledgement, None)
            finding = replace(finding, severity=Severity.ACKNOWLEDGED, remedy=f"accepted: {reason}")
        yield finding
    acceptable = [rule.id for rule in RULES if rule.acknowledgeable]
    unchecked = {finding.rule for finding in findings if finding.severity is Severity.NOT_CHECKED}
    for entry, reason in unused.items():
        rule = entry.partition(":")[0]
        problem, remedy = "accepts a finding that does not exist", "remove it"
        if rule not in acceptable:
            problem, remedy = f"no rule {rule!r} can be accepted", suggest_name(rule, acceptable)
        elif select_errors(loaded.findings) or rule in unchecked:
            continue  # its finding may be in the part that cannot be read, or was not checked
        if entry in {finding.rule for finding in findings if finding.subject}:
            remedy = f'add the file that the finding names: "{rule}:FILE"'
        yield Finding(
            rule="acknowledge-nothing",
            severity=Severity.ERROR,
            file=loaded.source.find_origin(("acknowledge", entry), loaded.file),
            key=f"acknowledge.{entry}",
            given=reason,
            problem=problem,
            allowed=", ".join(acceptable),
            remedy=remedy,
        )
