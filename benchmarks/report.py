"""What the sections of docs/performance.md share: the result's file, heads, tables, bounds."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from model_packaging.beside import beside

WITH_SPREAD = ["| | measured | lowest to highest | wanted | |", "|---|---:|---:|---:|---|"]


def read(result: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return parsed


def write(result: Path, found: dict[str, Any]) -> None:
    """Whole, or not at all."""
    with beside(result) as file:
        file.write((json.dumps(found, indent=2) + "\n").encode())


def section(title: str, name: str, *parts: Iterable[str]) -> str:
    """The parts with a line between them. `name`: of the benchmark's folder."""
    source = f"Generated from `benchmarks/{name}/result.json`; measured by `make bench-{name}`."
    lines = [f"## {title}", "", source, ""]
    for part in parts:
        lines += [*part, ""]
    return "\n".join(lines)


def ran_on(machine: dict[str, Any], more: str = "") -> str:
    """`more`: versions beside Python's."""
    return (
        f"Computer: {machine['cores']} cores, {machine['processor']}, Python {machine['python']}"
        f"{more}; load average {machine['load_before']} before the run; {machine['date']}."
    )


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def target(label: str, found: str, spread: str, wanted: str, met: bool) -> str:
    return row(label, found, spread, wanted, "met" if met else "**not met**")


def at_most(
    label: str, found: Sequence[float], most: float, form: str = ".2f", unit: str = ""
) -> str:
    """A target for the median of what the repeats found, with the lowest and the highest."""
    middle, low, high = (f"{one:{form}}{unit}" for one in (median(found), min(found), max(found)))
    return target(
        label, middle, f"{low} to {high}", f"at most {most:g}{unit}", median(found) <= most
    )
