"""Print findings on the terminal.

The output has a line for each environment, then one for each finding, then the rules that were
not checked.
"""

import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from infra.parameters.finding import Finding, Severity
from infra.preflight import rendering
from infra.preflight.check import select_errors
from infra.preflight.rendering import is_inconclusive
from servable.console.terminal import escape_controls, unwrap_stream, uses_color

COLOURS = {
    Severity.ERROR: "red",
    Severity.WARNING: "yellow",
    Severity.ACKNOWLEDGED: "green",
    Severity.NOT_CHECKED: "yellow",
}


def print_findings(
    findings_by_name: Mapping[str, Sequence[Finding]], *, explain: bool = False
) -> None:
    """Print the summary to stdout and the findings to stderr.

    A finding that several environments share is printed once. `explain`: name the rules that were
    not checked, for environments without an error.
    """
    width = max((len(name) for name in findings_by_name), default=0)
    for name, findings in findings_by_name.items():
        click.echo(f"{name:{width}}  {rendering.summarize(findings)}")
    sys.stdout.flush()
    every = [finding for findings in findings_by_name.values() for finding in findings]
    print_lines(every, whole=explain)
    # After an error there would be many, most of them its consequences.
    mended = {name: found for name, found in findings_by_name.items() if not select_errors(found)}
    for text in rendering.list_open_questions(mended, with_rules=explain):
        echo_styled(text, dim=True, err=True)


def print_lines(findings: Iterable[Finding], *, whole: bool = True) -> None:
    """Print each finding once to stderr, sorted by file, with errors first.

    Findings of rules that were not checked are left out. `whole`: print each finding on one line;
    otherwise, on a terminal, print it wrapped under its file's name.
    """
    left_out = Severity.NOT_CHECKED
    shown = [each for each in findings if each.severity is not left_out or is_inconclusive(each)]
    order = [*Severity].index
    worst: dict[str, int] = {}
    # Python's sort keeps the order of what is equal: that of the rules.
    for finding in sorted(shown, key=lambda finding: order(finding.severity)):
        worst.setdefault(finding.file, order(finding.severity))
    shown.sort(key=lambda one: (worst[one.file], one.file, order(one.severity)))
    whole = whole or not sys.stderr.isatty()
    columns = shutil.get_terminal_size().columns
    file, cut = None, False
    for text, finding in {rendering.format_finding(finding): finding for finding in shown}.items():
        if not whole:
            if finding.file != file:
                file = finding.file
                echo_styled(file, bold=True, err=True)
            lines = format_terminal_lines(finding, columns)
            cut |= lines[0].endswith("…")
            text = "\n".join(lines)
        echo_styled(text, fg=COLOURS[finding.severity], err=True)
    if cut:
        note = "shortened; `servable check --explain` shows the full messages"
        echo_styled(note, dim=True, err=True)


def format_terminal_lines(finding: Finding, columns: int) -> list[str]:
    """Return a finding as lines without its file: one for the problem, cut, then the remedy."""
    mark = "" if finding.severity is Severity.ERROR else f"{finding.severity.value}: "
    head = "".join(f"{part}: " for part in (finding.line, finding.key) if part)
    remedy = f"{finding.remedy} [{finding.acknowledgement}]"
    line = f"  {mark}{head}{finding.problem}"
    if len(line) > columns:
        line = f"{line[: max(columns - 1, 0)]}…"
    return [line, *wrap_text(remedy, columns, "    -> ")]


def wrap_text(text: str, columns: int, before: str) -> list[str]:
    """Return indented lines, the first after `before`; a word longer than a line stays whole."""
    return textwrap.wrap(
        " ".join(text.split()),
        columns,
        initial_indent=before,
        subsequent_indent=" " * len(before),
        break_long_words=False,
        break_on_hyphens=False,
    )


def echo_styled(text: str, *, then: str = "", err: bool = False, **style: Any) -> None:
    """Print a line whose first part, `text`, has a style, and `then` has none; escape both."""
    stream = unwrap_stream(sys.stderr if err else sys.stdout)
    line = click.style(escape_controls(text), **style) + escape_controls(then)
    click.echo(line, file=stream, color=uses_color(stream))
