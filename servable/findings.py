"""Findings as people read them: a line for each environment, then what is wrong, then what is open."""

import sys
from collections.abc import Mapping, Sequence

import click

from infra.parameters.finding import Finding, Severity

COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ACKNOWLEDGED: "green"}


def print_findings(found: Mapping[str, Sequence[Finding]]) -> None:
    """A summary to stdout, the findings to stderr; one that several share, once."""
    width = max((len(name) for name in found), default=0)
    for name, findings in found.items():
        click.echo(f"{name:{width}}  {_summary(findings)}")
    sys.stdout.flush()
    lines = {
        _line(one): one.severity for findings in found.values() for one in findings if _said(one)
    }
    for text, severity in lines.items():
        click.secho(text, fg=COLOURS[severity], err=True)
    for text in _open(found):
        click.secho(text, dim=True, err=True)


def _said(finding: Finding) -> bool:
    return finding.severity is not Severity.NOT_CHECKED


def _line(finding: Finding) -> str:
    mark = "" if finding.severity is Severity.ERROR else f"{finding.severity.value}: "
    return f"{mark}{finding}"


def _open(found: Mapping[str, Sequence[Finding]]) -> list[str]:
    """What was not checked: one line for each input that would be needed."""
    rules: dict[str, dict[str, None]] = {}
    environments: dict[str, dict[str, None]] = {}
    for name, findings in found.items():
        for one in findings:
            if not _said(one):
                rules.setdefault(one.remedy, {})[one.rule] = None
                environments.setdefault(one.remedy, {})[name] = None
    return [
        f"not checked in {', '.join(environments[remedy])}: {', '.join(names)}; {remedy}"
        for remedy, names in rules.items()
    ]


def _summary(findings: Sequence[Finding]) -> str:
    counts = {severity: sum(one.severity is severity for one in findings) for severity in Severity}
    words = [
        f"{count} {severity.value}{'s' if count > 1 and severity in _PLURAL else ''}"
        for severity, count in counts.items()
        if count
    ]
    clean = not any(
        counts[severity] for severity in Severity if severity is not Severity.NOT_CHECKED
    )
    return ", ".join(["ok", *words] if clean else words)


_PLURAL = (Severity.ERROR, Severity.WARNING)
