"""Findings accepted on purpose."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity, meant
from infra.parameters.loading import Loaded


def acknowledged(
    loaded: Loaded,
    environment: Environment,
    findings: Sequence[Finding],
    acknowledgeable: list[str],
) -> Iterator[Finding]:
    """The findings, with those that the file accepts marked; and the acceptances of nothing."""
    matched = set()
    for finding in findings:
        name = finding.acknowledgement
        if finding.acknowledgeable and name in environment.acknowledge:
            matched.add(name)
            reason = environment.acknowledge[name]
            finding = replace(finding, severity=Severity.ACKNOWLEDGED, remedy=f"accepted: {reason}")
        yield finding
    named = {finding.rule for finding in findings if finding.subject}
    for entry, reason in environment.acknowledge.items():
        if entry in matched:
            continue
        rule = entry.partition(":")[0]
        known = rule in acknowledgeable
        if known and loaded.findings:
            continue  # what it accepts may be in the part that cannot be read
        key = f"acknowledge.{entry}"
        remedy = "take it out" if known else meant(rule, acknowledgeable)
        if entry in named:
            remedy = f'write it with what it accepts, as the finding says: "{rule}:FILE"'
        yield Finding(
            rule="acknowledge-nothing",
            severity=Severity.ERROR,
            file=loaded.source.origin(("acknowledge", entry), loaded.file),
            key=key,
            given=reason,
            problem="accepts a finding that is not there"
            if known
            else f"no rule {rule!r} can be accepted",
            allowed=", ".join(acknowledgeable),
            remedy=remedy,
        )
