"""The search's part of docs/performance.md, from what `make bench-search` measured last."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESULT = Path(__file__).parent / "result.json"

OURS = "ours"
MEDIAN_AT_LEAST, WORST_AT_LEAST, FLAT_WITHIN = 0.97, 0.90, 15
_RESAMPLES = 10_000
# Facts about the surfaces themselves, not about a run.
_TWO_SURFACES = [
    "Random plateaus: most steps of a setting change nothing, and one may change 40 %. A search that",
    "never looks at that value of that setting beside the best of the others is off by a terrace; no",
    "measurement beside it tells. Simulated, 4 cores: four of the 720 points reach 97 % of the best",
    "and seventeen others 95 %, so its median is either of the two.",
]


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
            f"with {result['noise']:.0%} noise each; seeds {first} to {last}. The search was developed "
            "on others, but",
            "these were looked at between its versions: on new ones expect somewhat less. What counts is",
            "the noiseless value of the point that a search recommends, as a share of the best of the",
            "whole grid. The surfaces are formulas, and the simulator where it says so: no real endpoint",
            "was measured for this table.",
            "",
            *table(result),
            "",
            "Ours less each of the others, in points of a hundred: the same surfaces, the same noise;",
            "means, with an interval of 95 % from resampling the seeds.",
            "",
            *differences(result),
            "",
            *_targets(result),
            "",
            *_TWO_SURFACES,
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
            low, high = _interval(shares, np.median)
            measurements = np.mean([run["measurements"] for run in runs])
            label = f"{family}, {result['points'][family]:,}" if number == 0 else ""
            lines.append(
                f"| {label} | {contender} | {np.median(shares):.1%} | {low:.1%} to {high:.1%} | "
                f"{min(shares):.1%} | {measurements:.0f} |"
            )
    return lines


def differences(result: dict[str, Any]) -> list[str]:
    """A row for each surface, and one for all of them: ours less each of the others."""
    shares = {
        family: {
            name: np.array([run["share_of_best"] for run in runs]) for name, runs in by.items()
        }
        for family, by in result["runs"].items()
    }
    others = [name for name in next(iter(shares.values())) if name != OURS]
    together = {
        name: np.mean([by[name] for by in shares.values()], axis=0) for name in [OURS, *others]
    }
    lines = [f"| surface | {' | '.join(others)} |", f"|---|{'---:|' * len(others)}"]
    for family, by in {**shares, "all of them": together}.items():
        cells = [_difference(100 * (by[OURS] - by[name])) for name in others]
        lines.append(f"| {family} | {' | '.join(cells)} |")
    return lines


def _difference(points: NDArray[np.float64]) -> str:
    low, high = _interval(points, np.mean)
    return f"{points.mean():+.1f} ({low:+.1f} to {high:+.1f})"


def _targets(result: dict[str, Any]) -> list[str]:
    lines = ["| | found | wanted | |", "|---|---:|---:|---|"]
    for family, contenders in result["runs"].items():
        shares = [run["share_of_best"] for run in contenders[OURS]]
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


def _interval(values: Sequence[float] | NDArray[np.float64], of: Any) -> tuple[float, float]:
    """By resampling the seeds, from a seed of its own. `of`: np.mean or np.median."""
    drawn = np.random.default_rng(0).choice(values, size=(_RESAMPLES, len(values)))
    low, high = np.percentile(of(drawn, axis=1), [2.5, 97.5])
    return float(low), float(high)
