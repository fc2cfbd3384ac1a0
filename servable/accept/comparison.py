"""A report held against another: facts that differ, step by step."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from servable.acceptance_report import read_report

LOCAL_AWS = Path(__file__).with_name("local_aws.json")
"""Report of a run against the local AWS; `make accept-local` writes it."""
_DURATIONS = ("minutes", "seconds", "_ms", "rps")
# A duration is another one from this factor on: the local AWS runs on a clock of its own.
FACTOR = 2.0
_MISSING = "not there"


@dataclass(frozen=True)
class FactDifference:
    """One fact of one step that two reports state differently."""

    step: str
    fact: str
    first: Any
    second: Any
    is_duration: bool = False

    def __str__(self) -> str:
        return f"{self.step}: {self.fact}: {_short(self.first)}, {_short(self.second)}"


def compared(first: dict[str, Any], second: dict[str, Any]) -> Iterator[FactDifference]:
    """Yield the facts that differ, in the order of the first report's steps.

    Steps that one of them has not run, or that an earlier end kept it from, are not compared.
    """
    others = {step["name"]: step for step in second["steps"]}
    for step in first["steps"]:
        other = others.get(step["name"])
        if other is None:
            continue
        yield from _differing(step["name"], "outcome", step["outcome"], other["outcome"])
        facts, other_facts = step["facts"], other["facts"]
        # A step that was not reached, or left out, has no facts to compare.
        if not facts or not other_facts:
            continue
        for name in dict.fromkeys([*facts, *other_facts]):
            yield from _differing(
                step["name"], name, facts.get(name, _MISSING), other_facts.get(name, _MISSING)
            )


def _differing(step: str, name: str, first: Any, second: Any) -> Iterator[FactDifference]:
    if isinstance(first, dict) and isinstance(second, dict):
        for key in dict.fromkeys([*first, *second]):
            values = first.get(key, _MISSING), second.get(key, _MISSING)
            yield from _differing(step, f"{name}.{key}", *values)
        return
    numbers = [
        isinstance(each, int | float) and not isinstance(each, bool) for each in (first, second)
    ]
    is_duration = all(numbers) and name.endswith(_DURATIONS)
    if is_duration:
        low, high = sorted((abs(first), abs(second)))
        if high > FACTOR * low:
            yield FactDifference(step, name, first, second, is_duration=True)
    elif first != second:
        yield FactDifference(step, name, first, second)


def compare_files(files: Sequence[Path], *, as_json: bool) -> int:
    """Print the differences of a report and the local AWS's, or of two; return the exit code."""
    first, second = (read_report(file) for file in (*files, LOCAL_AWS)[:2])
    found = list(compared(first, second))
    names = [f"{report['aws']} {report['began'][:10]}" for report in (first, second)]
    shared = {step["name"] for step in first["steps"]} & {step["name"] for step in second["steps"]}
    if as_json:
        rows = [asdict(each) for each in found]
        click.echo(
            json.dumps({"reports": names, "steps": sorted(shared), "differences": rows}, indent=1)
        )
    else:
        click.echo(f"{len(shared)} steps in both; {names[0]} first, then {names[1]}")
        for each in found:
            click.echo(each)
        durations = sum(each.is_duration for each in found)
        click.echo(
            f"{len(found) - durations} facts differ, and {durations} durations by a factor of {FACTOR:g}"
        )
    return int(bool(found)) if shared else 3


def _short(value: Any) -> str:
    text = json.dumps(value) if not isinstance(value, str) else value
    return text if len(text) <= 80 else f"{text[:79]}…"
