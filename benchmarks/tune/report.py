"""tune's part of docs/performance.md, from what `make bench-tune` measured last."""

from pathlib import Path
from typing import Any

from benchmarks.report import ran_on, read, target
from benchmarks.report import section as page_section

RESULT = Path(__file__).parent / "result.json"

WANTED = 0.9


def section() -> str:
    result = read(RESULT)
    runs, wanted = result["runs"], result["minutes_wanted"]
    asked = sorted({run["minutes"] for run in runs})
    refusals = [line for run in runs for line in run["said"]]
    said = [f"`--minutes {wanted}` was enough."]
    if refusals:
        minutes = " to ".join(map(str, dict.fromkeys((asked[0], asked[-1]))))
        said = [
            f"With `--minutes {wanted}` it says before it measures, or after the first trial, that they",
            f"are too few; the runs were given what it asked for, {minutes} minutes.",
            f"The first time: “{refusals[0].removeprefix('servable tune: ')}”.",
        ]
    return page_section(
        "Tuning",
        "tune",
        [
            "The command `servable tune` on a local container whose inference.py computes "
            f"{result['better']:g} times less with one",
            "value of one setting, drawn for each run; and on one where no setting matters.",
        ],
        said,
        [
            "| | runs | gains, least to most | wanted | |",
            "|---|---:|---:|---:|---|",
            _target("a setting is planted: found", runs, planted=True),
            _target("none is planted: none claimed", runs, planted=False),
        ],
        [ran_on(result["machine"])],
    )


def _target(label: str, runs: list[dict[str, Any]], *, planted: bool) -> str:
    found = [run for run in runs if (run["planted"] is not None) == planted]
    good = sum(
        bool(run["found"]) if planted else not run["better"] for run in found if "failed" not in run
    )
    gains = [100 * run["gain"]["value"] for run in found if "failed" not in run] or [0.0]
    return target(
        label,
        f"{good} of {len(found)}",
        f"{min(gains):+.0f} % to {max(gains):+.0f} %",
        f"at least {WANTED * len(found):.0f}",
        good >= WANTED * len(found),
    )
