"""Checks an environment: all findings in one run, with those that [acknowledge] accepts marked."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity, meant
from infra.parameters.loading import Loaded
from infra.preflight.candidate import Candidate
from infra.preflight.rule import discovered

RULES = discovered()


def check(loaded: Loaded) -> list[Finding]:
    """The findings about invalid keys, and those of every rule in the rest of the file.

    `loaded.environment` may be deployed if none of them is an error.
    """
    found = check_all(loaded)
    return [one for one in found if one.severity is not Severity.NOT_CHECKED]


def check_all(loaded: Loaded) -> list[Finding]:
    """The findings of `check`, and the rules that lack an input."""
    if loaded.draft is None:
        return list(loaded.findings)
    candidate = Candidate(loaded, loaded.draft)
    found = [one for rule in RULES for one in rule(candidate).check(loaded.draft)]
    # Invalid keys are missing in the draft: findings that follow from their absence are dropped.
    shape = [finding.key for finding in loaded.findings]
    new = [
        one
        for one in found
        if not any(_touch(key, problem) for key in (one.key, *one.reads) for problem in shape)
    ]
    # Two variants of one model give the same finding about it: once is enough.
    new = list({(one.rule, one.key, str(one)): one for one in new}.values())
    return [*loaded.findings, *_acknowledged(loaded, loaded.draft, new)]


def errors(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that stop a deployment."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def _touch(key: str, problem: str) -> bool:
    """Whether the keys are equal, or one is inside the other."""
    return f"{key}.".startswith(f"{problem}.") or f"{problem}.".startswith(f"{key}.")


def _acknowledged(
    loaded: Loaded, environment: Environment, findings: Sequence[Finding]
) -> Iterator[Finding]:
    """The findings, with accepted ones marked, and a finding for each entry that accepts nothing."""
    matched = set()
    for finding in findings:
        name = finding.acknowledgement
        if finding.acknowledgeable and name in environment.acknowledge:
            matched.add(name)
            reason = environment.acknowledge[name]
            finding = replace(finding, severity=Severity.ACKNOWLEDGED, remedy=f"accepted: {reason}")
        yield finding
    named = {finding.rule for finding in findings if finding.subject}
    unknown = {one.rule for one in findings if one.severity is Severity.NOT_CHECKED}
    acceptable = [rule.id for rule in RULES if rule.acknowledgeable]
    for entry, reason in environment.acknowledge.items():
        if entry in matched:
            continue
        rule = entry.partition(":")[0]
        known = rule in acceptable
        if known and (loaded.findings or rule in unknown):
            continue  # its finding may be in the part that cannot be read, or was not checked
        remedy = "take it out" if known else meant(rule, acceptable)
        if entry in named:
            remedy = f'add the file that the finding names: "{rule}:FILE"'
        yield Finding(
            rule="acknowledge-nothing",
            severity=Severity.ERROR,
            file=loaded.source.origin(("acknowledge", entry), loaded.file),
            key=f"acknowledge.{entry}",
            given=reason,
            problem="accepts a finding that does not exist"
            if known
            else f"no rule {rule!r} can be accepted",
            allowed=", ".join(acceptable),
            remedy=remedy,
        )
