"""Synth's part of docs/performance.md, from what `make bench-synth` measured last."""

import json
from pathlib import Path
from statistics import median
from typing import Any

RESULT = Path(__file__).parent / "result.json"
EMPTY = "an app with nothing in it"
ALL = "every environment"
MORE = "ten more environments"
NAG = "every environment, cdk-nag"
VALIDATED = "every environment, validation"
# What is wanted. Source: the requirements of this project.
MOST_OF_EMPTY = 4.0
MOST_SECONDS_EACH = 0.35


def section() -> str:
    head = ["## Synth", ""]
    if not RESULT.exists():
        return "\n".join([*head, "Not measured yet: `make bench-synth`.", ""])
    result = _result()
    return "\n".join([*head, *_how(result), "", *_ways(result), "", *_bounds(result), ""])


def met() -> bool:
    """Both bounds, by the last measurement."""
    result = _result()
    return _of_empty(result) <= MOST_OF_EMPTY and _each(result) <= MOST_SECONDS_EACH


def _result() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    return found


def _how(result: dict[str, Any]) -> list[str]:
    machine, found = result["machine"], result["seconds"]
    return [
        "Generated from `benchmarks/synth/result.json`; measured by `make bench-synth`.",
        "",
        "`python app.py` alone, without the CDK CLI, each run in a process of its own, from its start to",
        f"its end; median of {len(found[EMPTY])} runs, in turn. cdk-nag and the CDK's own validation of",
        "templates are off, but where the table says so: `make check` runs both, and deploys run neither.",
        "Ten more environments are like `prod`, the largest; models are hashed from the cache.",
        "",
        f"Machine: {machine['cores']} cores, {machine['processor']}, Python {machine['python']}; "
        f"load average {machine['load_before']} before the run; {machine['date']}.",
    ]


def _ways(result: dict[str, Any]) -> list[str]:
    lines = ["| | s | fastest to slowest |", "|---|---:|---:|"]
    for way, found in result["seconds"].items():
        lines.append(f"| {way} | {median(found):.2f} | {min(found):.2f} to {max(found):.2f} |")
    return lines


def _bounds(result: dict[str, Any]) -> list[str]:
    of_empty, each = _of_empty(result), _each(result)
    return [
        "| | measured | wanted | |",
        "|---|---:|---:|---|",
        f"| every environment / an app with nothing in it | {of_empty:.2f}x | at most "
        f"{MOST_OF_EMPTY:g}x | {_word(of_empty <= MOST_OF_EMPTY)} |",
        f"| each of ten more environments | {each:.2f} s | at most {MOST_SECONDS_EACH:g} s | "
        f"{_word(each <= MOST_SECONDS_EACH)} |",
    ]


def _of_empty(result: dict[str, Any]) -> float:
    found = result["seconds"]
    return float(median(found[ALL]) / median(found[EMPTY]))


def _each(result: dict[str, Any]) -> float:
    found = result["seconds"]
    return float((median(found[MORE]) - median(found[ALL])) / result["more"])


def _word(fine: bool) -> str:
    return "met" if fine else "**not met**"
