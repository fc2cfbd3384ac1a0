"""Findings on the terminal: a line for each environment, then for each finding, then unchecked rules."""

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from infra.parameters.finding import Finding, Severity
from infra.preflight.check import errors
from infra.preflight.rendering import is_untold, line, not_checked, summary
from servable_local.terminal import escaped, plain

UNCHECKED = (
    "not checked: rules that lack an input; `servable check --explain` names rules and inputs"
)
COLOURS = {
    Severity.ERROR: "red",
    Severity.WARNING: "yellow",
    Severity.ACKNOWLEDGED: "green",
    Severity.NOT_CHECKED: "yellow",
}


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
    every = [finding for findings in findings_by_name.values() for finding in findings]
    print_lines(every, whole=explain)
    # After an error they would be many, most of them its consequences.
    mended = {name: found for name, found in findings_by_name.items() if not errors(found)}
    if explain:
        texts = not_checked(mended)
    else:
        unchecked = (
            each.severity is Severity.NOT_CHECKED and not is_untold(each)
            for found in mended.values()
            for each in found
        )
        texts = [UNCHECKED] if any(unchecked) else []
    for text in texts:
        styled_echo(text, dim=True, err=True)


def print_lines(findings: Iterable[Finding], *, whole: bool = True) -> None:
    """Print findings to stderr, each once, file by file and errors first, without rules that were not
    checked. `whole`: do not shorten them to the width of a terminal, under their file's name.
    """
    shown = [
        finding
        for finding in findings
        if finding.severity is not Severity.NOT_CHECKED or is_untold(finding)
    ]
    order = [*Severity].index
    worst: dict[str, int] = {}
    # Python's sort keeps the order of what is equal: that of the rules.
    for finding in sorted(shown, key=lambda finding: order(finding.severity)):
        worst.setdefault(finding.file, order(finding.severity))
    shown.sort(key=lambda one: (worst[one.file], one.file, order(one.severity)))
    whole = whole or not sys.stderr.isatty()
    columns = shutil.get_terminal_size().columns
    file, cut = None, False
    for text, finding in {line(finding): finding for finding in shown}.items():
        if not whole:
            if finding.file != file:
                file = finding.file
                styled_echo(file, bold=True, err=True)
            text = f"  {fitted(finding, columns - 2)}"
            cut |= "…" in text
        styled_echo(text, fg=COLOURS[finding.severity], err=True)
    if cut:
        styled_echo("shortened: `servable check --explain` shows whole lines", dim=True, err=True)


def fitted(finding: Finding, columns: int) -> str:
    """The finding on one line of a terminal, without its file; what is wrong is cut before the remedy."""
    mark = "" if finding.severity is Severity.ERROR else f"{finding.severity.value}: "
    head = "".join(f"{part}: " for part in (finding.line, finding.key) if part)
    tail = f"; {finding.remedy} [{finding.acknowledgement}]"
    rest = columns - len(mark) - len(head)
    tail = _cut(tail, max(rest - min(len(finding.problem), columns // 3), 0))
    problem = _cut(finding.problem, max(rest - len(tail), 0))
    return _cut(f"{mark}{head}{problem}{tail}", columns)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: max(characters - 1, 0)]}…"


def styled_echo(text: str, *, err: bool = False, **style: Any) -> None:
    """Print a line in a style: its sequences are click's, what it shows is escaped."""
    click.secho(escaped(text), file=plain(sys.stderr if err else sys.stdout), **style)
