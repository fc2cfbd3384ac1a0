"""Synth's part of docs/performance.md, from what `make bench-synth` measured last."""

from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import ran_on, read, row
from benchmarks.report import section as page_section

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
    result = read(RESULT)
    return page_section("Synth", "synth", _how(result), _ways(result), _bounds(result))


def met() -> bool:
    """Both bounds, by the last measurement."""
    of_empty, each = _measured(read(RESULT))
    return of_empty <= MOST_OF_EMPTY and each <= MOST_SECONDS_EACH


def _how(result: dict[str, Any]) -> list[str]:
    return [
        "`python app.py` alone, without the CDK CLI, each run in a process of its own, from its start to",
        f"its end; median of {len(result['seconds'][EMPTY])} runs, in turn. cdk-nag and the CDK's own "
        "validation of",
        "templates are off, but where the table says so: `make check` runs both, and deploys run neither.",
        "Ten more environments are like `prod`, the largest; models are hashed from the cache.",
        "",
        ran_on(result["machine"]),
    ]


def _ways(result: dict[str, Any]) -> list[str]:
    lines = ["| | s | fastest to slowest |", "|---|---:|---:|"]
    for way, found in result["seconds"].items():
        lines.append(row(way, f"{median(found):.2f}", f"{min(found):.2f} to {max(found):.2f}"))
    return lines


def _bounds(result: dict[str, Any]) -> list[str]:
    of_empty, each = _measured(result)
    words = {True: "met", False: "**not met**"}
    return [
        "| | measured | wanted | |",
        "|---|---:|---:|---|",
        row(f"{ALL} / {EMPTY}", f"{of_empty:.2f}x", f"at most {MOST_OF_EMPTY:g}x",
            words[of_empty <= MOST_OF_EMPTY]),
        row(f"each of {MORE}", f"{each:.2f} s", f"at most {MOST_SECONDS_EACH:g} s",
            words[each <= MOST_SECONDS_EACH]),
    ]  # fmt: skip


def _measured(result: dict[str, Any]) -> tuple[float, float]:
    """(every environment, as a multiple of the empty app; seconds for each environment more)."""
    middle = {way: median(found) for way, found in result["seconds"].items()}
    return middle[ALL] / middle[EMPTY], (middle[MORE] - middle[ALL]) / result["more"]
