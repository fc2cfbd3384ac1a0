"""Findings on the terminal: a line for each environment, then what is wrong, then what is open."""

import sys
from collections.abc import Iterable, Mapping, Sequence

import click

from infra.parameters.finding import Finding, Severity
from infra.preflight.rendering import line, not_checked, summary

COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ACKNOWLEDGED: "green"}


def print_findings(found: Mapping[str, Sequence[Finding]]) -> None:
    """A summary to stdout, the findings to stderr; one that several environments share, once."""
    width = max((len(name) for name in found), default=0)
    for name, findings in found.items():
        click.echo(f"{name:{width}}  {summary(findings)}")
    sys.stdout.flush()
    print_lines(one for findings in found.values() for one in findings)
    for text in not_checked(found):
        click.secho(text, dim=True, err=True)


def print_lines(findings: Iterable[Finding]) -> None:
    """To stderr, each once, without those that only say that a rule was not checked."""
    checked = [one for one in findings if one.severity is not Severity.NOT_CHECKED]
    for text, severity in {line(one): one.severity for one in checked}.items():
        click.secho(text, fg=COLOURS[severity], err=True)
