"""The search's part of docs/performance.md, from what `make bench-search` measured last."""

import json
from pathlib import Path
from typing import Any

import numpy as np

RESULT = Path(__file__).parent / "result.json"

MEDIAN_AT_LEAST, WORST_AT_LEAST, FLAT_WITHIN = 0.97, 0.90, 15
_RESAMPLES = 10_000


def section() -> str:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    first, last = result["seeds"]
    return "\n".join(
        [
            "## Searching",
            "",
            "Generated from `benchmarks/search/result.json`; measured by `make bench-search`.",
            "",
            f"Made-up endpoints (`benchmarks/search/surfaces`): {result['budget_trials']} measurements",
            f"with {result['noise']:.0%} noise each; seeds {first} to {last}, while the search was "
            "developed on others. What counts",
            "is the noiseless value of the point that a search recommends, as a share of the best of",
            "the whole grid. The surfaces are formulas, and the simulator where it says so: no real",
            "endpoint was measured for this table.",
            "",
            *table(result),
            "",
            *_targets(result),
            "",
        ]
    )


def table(result: dict[str, Any]) -> list[str]:
    """A row for each surface and search: median, where it probably lies, worst, measurements."""
    lines = [
        "| surface, points | search | median | 95 % interval of the median | worst | measurements |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for family, contenders in result["runs"].items():
        for number, (contender, runs) in enumerate(contenders.items()):
            shares = [run["share_of_best"] for run in runs]
            low, high = _median_interval(shares)
            measurements = np.mean([run["measurements"] for run in runs])
            label = f"{family}, {result['points'][family]:,}" if number == 0 else ""
            lines.append(
                f"| {label} | {contender} | {np.median(shares):.1%} | {low:.1%} to {high:.1%} | "
                f"{min(shares):.1%} | {measurements:.0f} |"
            )
    return lines


def _targets(result: dict[str, Any]) -> list[str]:
    lines = ["| | found | wanted | |", "|---|---:|---:|---|"]
    for family, contenders in result["runs"].items():
        shares = [run["share_of_best"] for run in contenders["ours"]]
        lines.append(_row(f"{family}: median", float(np.median(shares)), MEDIAN_AT_LEAST))
        lines.append(_row(f"{family}: worst", min(shares), WORST_AT_LEAST))
    stops = [one["trials"] for one in result["flat"]]
    said = sum("flat" in one["why"] for one in result["flat"])
    met = "met" if max(stops) <= FLAT_WITHIN and said == len(stops) else "**not met**"
    lines.append(
        f"| flat surface: stops, and says so ({said} of {len(stops)}) | after {max(stops)} at most | "
        f"within {FLAT_WITHIN} | {met} |"
    )
    return lines


def _row(label: str, found: float, wanted: float) -> str:
    met = "met" if found >= wanted else "**not met**"
    return f"| {label} | {found:.1%} | at least {wanted:.0%} | {met} |"


def _median_interval(shares: list[float]) -> tuple[float, float]:
    """By resampling the seeds, from a seed of its own."""
    drawn = np.random.default_rng(0).choice(shares, size=(_RESAMPLES, len(shares)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return float(low), float(high)
