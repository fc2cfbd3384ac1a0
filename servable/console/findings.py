"""Findings on the terminal: a line for each environment, then for each finding, then unchecked rules."""

import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from infra.parameters.finding import Finding, Severity
from infra.preflight.check import errors
from infra.preflight.rendering import is_untold, line, list_unchecked, summary
from servable.console.terminal import escaped, plain, uses_color

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
    for text in list_unchecked(mended, with_rules=explain):
        styled_echo(text, dim=True, err=True)


def print_lines(findings: Iterable[Finding], *, whole: bool = True) -> None:
    """Print findings to stderr, each once, file by file and errors first, without rules that were not
    checked. `whole`: each on one line; otherwise, on a terminal, under their file's name and wrapped.
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
            lines = fitted(finding, columns)
            cut |= lines[0].endswith("…")
            text = "\n".join(lines)
        styled_echo(text, fg=COLOURS[finding.severity], err=True)
    if cut:
        styled_echo(
            "shortened: `servable check --explain` shows whole problems", dim=True, err=True
        )


def fitted(finding: Finding, columns: int) -> list[str]:
    """Return a finding as lines of a terminal, without its file: the problem on one, cut if it is long,
    and the whole remedy.
    """
    mark = "" if finding.severity is Severity.ERROR else f"{finding.severity.value}: "
    head = "".join(f"{part}: " for part in (finding.line, finding.key) if part)
    remedy = f"{finding.remedy} [{finding.acknowledgement}]"
    return [_cut(f"  {mark}{head}{finding.problem}", columns), *wrapped(remedy, columns, "    -> ")]


def wrapped(text: str, columns: int, before: str) -> list[str]:
    """Return a text in lines of at most these columns, indented; `before` stands before the first.

    A word that is longer than a line, such as a path, stays whole.
    """
    return textwrap.wrap(
        " ".join(text.split()),
        columns,
        initial_indent=before,
        subsequent_indent=" " * len(before),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: max(characters - 1, 0)]}…"


def styled_echo(text: str, *, then: str = "", err: bool = False, **style: Any) -> None:
    """Print a line that begins in a style: its sequences are click's, what it shows is escaped.

    `then`: the rest of the line, without the style.
    """
    stream = plain(sys.stderr if err else sys.stdout)
    line = click.style(escaped(text), **style) + escaped(then)
    click.echo(line, file=stream, color=uses_color(stream))
