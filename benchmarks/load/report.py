"""The load generator's part of docs/performance.md."""

from statistics import median
from typing import Any

from benchmarks.frame import Result
from benchmarks.tables import BOUNDS, quotients, row, short, spread, table, target

OURS, LOCUST, WRK = "ours", "Locust", "wrk"
# What is wanted. Source: the requirements of this project.
LEAST_RPS, MOST_LAG_P99_MS, MOST_ERROR = 3000.0, 2.0, 0.05
Runs = list[dict[str, Any]]


def fields(result: Result) -> dict[str, Any]:
    versions, queues = result["versions"], result["queues"]
    names = {OURS: OURS} | {
        name: f"{name} {versions[name] or ''}".strip() for name in (LOCUST, WRK)
    }
    closed = (f"closed loop of {result['users']}", "requests/s", "ours / it", "CPU-ms per request")
    opened = f"open loop, {result['rates']['null']:,.0f} requests/s"
    lags = (opened, "answered/s", "sent late, p50, ms", "sent late, p99, ms")
    percentiles = ("", "p50, closed", "p99, closed", "p50, open", "p99, open")
    return {
        "rounds": len(_runs(result, OURS, "null", "closed")),
        "bounds": _loops(result),
        "failed": _failed(result["runs"]),
        "absent": "" if versions[WRK] else " wrk was not installed.",
        "closed": table(closed, [(text, *_rates(result, name)) for name, text in names.items()]),
        "opened": table(lags, [(text, *_lags(result, name)) for name, text in names.items()]),
        "errors": table(
            percentiles, [(text, *_errors(result, name)) for name, text in names.items()]
        ),
        "tests": len(queues),
        "queues": _queues(queues),
        "held": sum(test["low_rps"] <= test["known_rps"] <= test["high_rps"] for test in queues),
    }


def _runs(result: Result, generator: str, server: str, loop: str) -> Runs:
    """Runs of one kind, in the order of the rounds."""
    kind = {"generator": generator, "server": server, "loop": loop}
    return [run for run in result["runs"] if kind.items() <= run.items()]


def _loops(result: Result) -> list[str]:
    lines = [*BOUNDS]
    for label, loop, key, least, most in (
        ("requests/s of one core, closed loop", "closed", "rps", LEAST_RPS, None),
        ("CPU-ms per request, closed loop", "closed", "cpu_ms_per_request", None, None),
        ("sent late, p99, ms, open loop", "open", "send_lag_p99_ms", None, MOST_LAG_P99_MS),
        ("sent late, p50, ms, open loop", "open", "send_lag_p50_ms", None, None),
        ("share of the core, open loop", "open", "cpu_share", None, None),
    ):
        values = [run[key] for run in _runs(result, OURS, "null", loop)]
        middle, limits = median(values), f"{short(min(values))} to {short(max(values))}"
        if least is not None:
            bound = f"at least {least:,g}", middle >= least
        elif most is not None:
            bound = f"at most {most:,g}", middle <= most
        else:
            lines.append(row(label, short(middle), limits, "", ""))
            continue
        lines.append(target(label, short(middle), limits, *bound))
    return lines


def _failed(runs: Runs) -> list[str]:
    """Name every failure: a generator that fails has measured something else."""
    sent, failed = (sum(run[key] for run in runs) for key in ("sent", "failed"))
    kinds = sorted({f"{run['generator']}: {kind}" for run in runs for kind in run["errors"]})
    errors = f" ({', '.join(kinds)})" if kinds else ""
    met = "**not met**" if failed else "met"
    return [f"{failed:,} of {sent:,} requests failed{errors}; wanted: none, {met}."]


def _rates(result: Result, generator: str) -> list[str]:
    mine, runs = (_runs(result, name, "null", "closed") for name in (OURS, generator))
    if not runs:
        return ["not measured", "", ""]
    rates = [run["rps"] for run in runs]
    ratios = spread(quotients([run["rps"] for run in mine], rates))
    cpu_ms = spread([run["cpu_ms_per_request"] for run in runs])
    return [spread(rates), "" if generator == OURS else ratios, cpu_ms]


def _lags(result: Result, generator: str) -> list[str]:
    runs = _runs(result, generator, "null", "open")
    if not runs:
        return ["no open loop", "", ""]
    keys = ("rps", "send_lag_p50_ms", "send_lag_p99_ms")
    return [spread([run[key] for run in runs]) for key in keys]


def _errors(result: Result, generator: str) -> list[str]:
    cells = []
    for loop in ("closed", "open"):
        runs = _runs(result, generator, "known", loop)
        for key in ("p50_ms", "p99_ms"):
            errors = [100 * (run[key] / run["known"][key] - 1) for run in runs]
            cells.append(spread(errors, "+.1f", " %") if errors else "")
    return cells


def _queues(queues: Runs) -> list[str]:
    lines = ["| | median | worst | wanted of the median | |", "|---|---:|---:|---:|---|"]
    for label, key, known in (
        ("highest rate within the objective", "knee_rps", "known_rps"),
        ("saturation", "full_rps", "known_full_rps"),
    ):
        errors = [abs(queue[key] / queue[known] - 1) for queue in queues]
        cells = (f"{median(errors):.1%}", f"{max(errors):.1%}", f"at most {MOST_ERROR:.0%}")
        lines.append(target(label, *cells, median(errors) <= MOST_ERROR))
    return lines
