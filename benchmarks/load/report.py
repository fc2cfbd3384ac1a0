"""The load generator's part of docs/performance.md, from what `make bench-load` measured last."""

import json
from pathlib import Path
from statistics import median
from typing import Any

RESULT = Path(__file__).parent / "result.json"
# Source: the requirements of this project.
WANTED_RPS = 3000.0
WANTED_LAG_P99_MS = 2.0
WANTED_ERROR = 0.05


def section() -> str:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    machine, rounds = result["machine"], result["rounds"]
    return "\n".join(
        [
            "## The load generator",
            "",
            "Generated from `benchmarks/load/result.json`; measured by `make bench-load`.",
            "",
            f"One process on one core sends {result['body_bytes']:,} bytes of JSON to a server on",
            "another core that does next to nothing (uvloop). "
            f"{len(rounds['closed'])} rounds of {result['seconds']:g} s each, in turn:",
            f"a closed loop of {result['users']} users, and an open loop of "
            f"{result['rate_rps']:,.0f} requests/s, evenly spaced.",
            "",
            f"Computer: {machine['cores']} cores, {machine['processor']}, Python {machine['python']}; "
            f"load average {machine['load_before']} before the run; {machine['date']}.",
            "",
            *_loops(result),
            "",
            *_failed(rounds),
            "",
            *_queues(result["queues"]),
            "",
        ]
    )


def _loops(result: dict[str, Any]) -> list[str]:
    closed, opened = result["rounds"]["closed"], result["rounds"]["open"]
    return [
        "| | measured | lowest to highest | wanted | |",
        "|---|---:|---:|---:|---|",
        _row("requests/s of one core, closed loop", closed, "rps", WANTED_RPS, at_least=True),
        _row("CPU-ms per request, closed loop", closed, "cpu_ms_per_request"),
        _row("sent late, p99, ms, open loop", opened, "send_lag_p99_ms", WANTED_LAG_P99_MS),
        _row("sent late, p50, ms, open loop", opened, "send_lag_p50_ms"),
        _row("share of the core, open loop", opened, "cpu_share"),
    ]


def _row(
    label: str,
    rounds: list[dict[str, Any]],
    key: str,
    wanted: float | None = None,
    *,
    at_least: bool = False,
) -> str:
    found = [one[key] for one in rounds]
    middle = median(found)
    shown = f"| {label} | {_shown(middle)} | {_shown(min(found))} to {_shown(max(found))} |"
    if wanted is None:
        return f"{shown} | |"
    met = middle >= wanted if at_least else middle <= wanted
    bound = f"{'at least' if at_least else 'at most'} {wanted:,g}"
    return f"{shown} {bound} | {'met' if met else '**not met**'} |"


def _failed(rounds: dict[str, list[dict[str, Any]]]) -> list[str]:
    every = [one for several in rounds.values() for one in several]
    sent, failed = (sum(one[key] for one in every) for key in ("sent", "failed"))
    kinds = sorted({kind for one in every for kind in one["errors"]})
    said = f" ({', '.join(kinds)})" if kinds else ""
    met = "met" if not failed else "**not met**"
    return [f"{failed:,} of {sent:,} requests failed{said}; wanted: none, {met}."]


def _queues(queues: list[dict[str, Any]]) -> list[str]:
    knees = [abs(queue["knee_rps"] / queue["known_rps"] - 1) for queue in queues]
    fulls = [abs(queue["full_rps"] / queue["known_full_rps"] - 1) for queue in queues]
    held = sum(queue["low_rps"] <= queue["known_rps"] <= queue["high_rps"] for queue in queues)
    lines = [
        "The knee, on simulated queues whose answer is known exactly (M/M/c, work of 10 ms at random;",
        f"{len(queues)} load tests in open loop, an error is a share of the known rate):",
        "",
        "| | median | worst | wanted of the median | |",
        "|---|---:|---:|---:|---|",
    ]
    for label, errors in (("highest rate within the objective", knees), ("saturation", fulls)):
        met = "met" if median(errors) <= WANTED_ERROR else "**not met**"
        lines.append(
            f"| {label} | {median(errors):.1%} | {max(errors):.1%} | at most {WANTED_ERROR:.0%} | {met} |"
        )
    return [
        *lines,
        "",
        f"The knee's 95 % interval held the known rate in {held} of {len(queues)}.",
    ]


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
