"""The load generator's part of docs/performance.md, from what `make bench-load` measured last."""

import json
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import row

OURS, LOCUST, WRK = "ours", "Locust", "wrk"
RESULT = Path(__file__).parent / "result.json"
# Source: the requirements of this project.
WANTED_RPS = 3000.0
WANTED_LAG_P99_MS = 2.0
WANTED_ERROR = 0.05


def section() -> str:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    machine, mine = result["machine"], _runs(result, OURS, "null", "closed")
    return "\n".join(
        [
            "## The load generator",
            "",
            "Generated from `benchmarks/load/result.json`; measured by `make bench-load`.",
            "",
            f"One process on one core sends {result['body_bytes']:,} bytes of JSON to a server on",
            "another core that does next to nothing (uvloop). "
            f"{len(mine)} rounds of {result['seconds']:g} s each, in turn:",
            f"a closed loop of {result['users']} users, and an open loop of "
            f"{result['rates']['null']:,.0f} requests/s, evenly spaced.",
            "",
            f"Computer: {machine['cores']} cores, {machine['processor']}, Python {machine['python']}; "
            f"load average {machine['load_before']} before the run; {machine['date']}.",
            "",
            *_loops(result),
            "",
            *_failed(result["runs"]),
            "",
            *_others(result),
            *_queues(result["queues"]),
            "",
        ]
    )


def _runs(result: dict[str, Any], generator: str, server: str, loop: str) -> list[dict[str, Any]]:
    """In the order of the rounds."""
    wanted = {"generator": generator, "server": server, "loop": loop}
    return [one for one in result["runs"] if wanted.items() <= one.items()]


def _loops(result: dict[str, Any]) -> list[str]:
    closed, opened = (_runs(result, OURS, "null", loop) for loop in ("closed", "open"))
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


def _failed(runs: list[dict[str, Any]]) -> list[str]:
    """Names what failed, whoever sent it: a generator that fails has measured something else."""
    sent, failed = (sum(one[key] for one in runs) for key in ("sent", "failed"))
    kinds = sorted({f"{one['generator']}: {kind}" for one in runs for kind in one["errors"]})
    said = f" ({', '.join(kinds)})" if kinds else ""
    met = "met" if not failed else "**not met**"
    return [f"{failed:,} of {sent:,} requests failed{said}; wanted: none, {met}."]


def _others(result: dict[str, Any]) -> list[str]:
    """Nothing, where none of them was measured."""
    versions = result.get("versions")
    if versions is None:
        return []
    absent = "" if versions[WRK] else " wrk was not installed."
    names = {OURS: OURS, LOCUST: f"Locust {versions[LOCUST]}", WRK: f"wrk {versions[WRK]}"}
    return [
        "### Beside Locust's FastHttpUser and wrk",
        "",
        "The same rounds, servers and cores; each generator with one process on one core, and wrk with",
        f"one thread. Medians, with the lowest and highest round; a ratio is of the same round.{absent}",
        "",
        f"| closed loop of {result['users']} | requests/s | ours / it | CPU-ms per request |",
        "|---|---:|---:|---:|",
        *(_rate_row(result, generator, name) for generator, name in names.items()),
        "",
        f"| open loop, {result['rates']['null']:,.0f} requests/s | answered/s | sent late, p50, ms "
        "| sent late, p99, ms |",
        "|---|---:|---:|---:|",
        *(_late_row(result, generator, name) for generator, name in names.items()),
        "",
        "Late is the moment of sending less the moment that was meant. Locust's are "
        f"{result['locust_users']} users with",
        "`constant_throughput`, which begin evenly spaced; one that falls behind by more than its period",
        "does not catch up. wrk has no open loop, so nothing of it can be late.",
        "",
        "The other server holds each answer for a time of its own (lognormal, median "
        f"{result['median_ms']:g} ms, sigma",
        f"{result['sigma']:g}, the same seed for everyone) and writes down how long it did. The error of a",
        "percentile is a share of the server's; the open loop sends "
        f"{result['rates']['known']:,.0f} requests/s.",
        "",
        "| | p50, closed | p99, closed | p50, open | p99, open |",
        "|---|---:|---:|---:|---:|",
        *(_error_row(result, generator, name) for generator, name in names.items()),
        "",
        "Locust keeps whole milliseconds below 100 ms, and tens above. wrk adds answers for those that it",
        "takes to have been kept from being sent, wherever one took more than twice the mean",
        "([stats_correct](https://github.com/wg/wrk/issues/326), 2026-11-22): its percentiles",
        "are not of the answers that came.",
        "",
    ]


def _rate_row(result: dict[str, Any], generator: str, name: str) -> str:
    mine, its = (_runs(result, one, "null", "closed") for one in (OURS, generator))
    if not its:
        return row(generator, "not measured", "", "")
    ratios = [own["rps"] / other["rps"] for own, other in zip(mine, its, strict=True)]
    ratio = "" if generator == OURS else f"{_spread(ratios)}"
    cpu = _spread([one["cpu_ms_per_request"] for one in its])
    return row(name, _spread([one["rps"] for one in its]), ratio, cpu)


def _late_row(result: dict[str, Any], generator: str, name: str) -> str:
    its = _runs(result, generator, "null", "open")
    if not its:
        return row(name if generator == WRK else generator, "no open loop", "", "")
    keys = ("rps", "send_lag_p50_ms", "send_lag_p99_ms")
    return row(name, *(_spread([one[key] for one in its]) for key in keys))


def _error_row(result: dict[str, Any], generator: str, name: str) -> str:
    cells = []
    for loop in ("closed", "open"):
        its = _runs(result, generator, "known", loop)
        for key in ("p50_ms", "p99_ms"):
            errors = [100 * (one[key] / one["known"][key] - 1) for one in its]
            cells.append(_spread(errors, "+.1f", " %") if errors else "")
    return row(name, *cells)


def _spread(found: list[float], form: str = "", unit: str = "") -> str:
    """12 (10 to 15)"""
    middle, low, high = (
        f"{one:{form}}" if form else _shown(one) for one in (median(found), min(found), max(found))
    )
    return f"{middle}{unit} ({low} to {high})"


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
