"""Findings on the terminal: one line for each environment, then the findings, then unchecked rules."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from infra.parameters.finding import Finding, Severity
from infra.preflight.check import errors
from infra.preflight.rendering import line, not_checked, summary
from servable_local.terminal import escaped, plain

UNCHECKED = (
    "not checked: rules that lack an input; `servable check --explain` names rules and inputs"
)
COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ACKNOWLEDGED: "green"}


def print_findings(
    findings_by_name: Mapping[str, Sequence[Finding]], *, explain: bool = False
) -> None:
    """Print the summary to stdout and the findings to stderr; a finding that environments share, once.

    `explain`: name the rules that were not checked, for environments without an error.
    """
    width = max((len(name) for name in findings_by_name), default=0)
    for name, findings in findings_by_name.items():
        click.echo(f"{name:{width}}  {summary(findings)}")
    sys.stdout.flush()
    print_lines(finding for findings in findings_by_name.values() for finding in findings)
    # After an error they would be many, most of them its consequences.
    mended = {name: found for name, found in findings_by_name.items() if not errors(found)}
    if explain:
        texts = not_checked(mended)
    elif any(each.severity is Severity.NOT_CHECKED for found in mended.values() for each in found):
        texts = [UNCHECKED]
    else:
        texts = []
    for text in texts:
        styled_echo(text, dim=True, err=True)


def print_lines(findings: Iterable[Finding]) -> None:
    """Print findings to stderr, each once and errors first, without rules that were not checked."""
    checked = [finding for finding in findings if finding.severity is not Severity.NOT_CHECKED]
    checked.sort(key=lambda finding: [*Severity].index(finding.severity))
    for text, severity in {line(finding): finding.severity for finding in checked}.items():
        styled_echo(text, fg=COLOURS[severity], err=True)


def styled_echo(text: str, *, err: bool = False, **style: Any) -> None:
    """Print a line in a style: its sequences are click's, what it shows is escaped."""
    click.secho(escaped(text), file=plain(sys.stderr if err else sys.stdout), **style)
