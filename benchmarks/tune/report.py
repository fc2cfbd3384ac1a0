"""tune's part of docs/performance.md."""

from typing import Any

from benchmarks.frame import Result
from benchmarks.tables import target

LEAST_SHARE = 0.9


def fields(result: Result) -> dict[str, Any]:
    runs, given = result["runs"], sorted({run["minutes"] for run in result["runs"]})
    minutes = [f"`--minutes {result['minutes_wanted']}` was enough."]
    if refusals := [line for run in runs for line in run["said"]]:
        minutes = [
            f"With `--minutes {result['minutes_wanted']}` it says before it measures, or after the first "
            "trial, that they",
            "are too few; the runs were given what it asked for, "
            f"{' to '.join(map(str, dict.fromkeys((given[0], given[-1]))))} minutes.",
            f"The first time: “{refusals[0].removeprefix('servable tune: ')}”.",
        ]
    targets = ["| | runs | gains, least to most | wanted | |", "|---|---:|---:|---:|---|"]
    targets.append(_target("a setting is planted: found", runs, planted=True))
    targets.append(_target("none is planted: none claimed", runs, planted=False))
    return {"minutes": minutes, "targets": targets}


def _target(label: str, runs: list[dict[str, Any]], *, planted: bool) -> str:
    chosen = [run for run in runs if (run["planted"] is not None) == planted]
    finished = [run for run in chosen if "failed" not in run]
    good = sum(bool(run["found"]) if planted else not run["better"] for run in finished)
    gains = [100 * run["gain"]["value"] for run in finished] or [0.0]
    least = LEAST_SHARE * len(chosen)
    cells = (f"{good} of {len(chosen)}", f"{min(gains):+.0f} % to {max(gains):+.0f} %")
    return target(label, *cells, f"at least {least:.0f}", good >= least)
