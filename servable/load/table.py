"""The table of a load test: a row for each step, and the one that runs."""

import math
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from servable.load.measurement import LoadCurve, Step

COLUMNS = ("requests/s", "within", "p50 ms", "p95 ms", "p99 ms", "failed", "late ms", "generator")


def table(curve: LoadCurve, now: tuple[float, dict[str, Any]] | None = None) -> Table:
    shown = Table(box=None, padding=(0, 1), header_style="bold")
    shown.add_column("users" if curve.loop == "closed" else "sent/s", justify="right")
    for column in COLUMNS:
        shown.add_column(column, justify="right")
    shown.add_column("")
    for step in curve.steps:
        shown.add_row(*_row(step), _remark(step))
    if now:
        load, found = now
        shown.add_row(f"{load:,.4g}", *_so_far(found), style="dim")
    return shown


def _row(step: Step) -> Sequence[str]:
    found = step.latencies
    return (
        f"{step.load:,.4g}",
        f"{step.throughput_rps.value:,.1f}",
        f"{step.throughput_rps.half_width_share:.0%}" if step.throughput_rps.value else "",
        *(_ms(one) for one in (found.p50_ms, found.p95_ms, found.p99_ms)),
        f"{step.failed_share:.1%}" if step.failed else "0",
        _ms(step.send_lag_p99_ms),
        f"{step.generator_cpu_share:.0%}",
    )


def _so_far(found: dict[str, Any]) -> Sequence[str]:
    within, p50, p99 = found["known_within"], found["p50_ms"], found["p99_ms"]
    return (
        f"{found['rps']:,.1f}",
        "" if within is None else f"{min(within, 9.99):.0%}",
        "" if p50 is None else _ms(p50),
        "",
        "" if p99 is None else _ms(p99),
        str(found["failed"]),
        "",
        "",
        f"{found['seconds']:.0f} s" if found["seconds"] else "warming up",
    )


def _remark(step: Step) -> str:
    if step.refused:
        return "refused: sent late"
    return "" if step.known else "not known within 5 %"


def _ms(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"
