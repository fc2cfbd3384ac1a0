"""The page's sentences and tables."""

import math
from dataclasses import dataclass

from servable.load.precision import Interval, readable
from servable.report.content import Content
from servable.tune.recommendation import headline
from servable.tune.search.space import shown


@dataclass(frozen=True)
class Cell:
    text: str
    number: float | None = None
    """Number to sort by."""


@dataclass(frozen=True)
class Row:
    cells: tuple[Cell, ...]
    kind: str = ""
    """Mark: "chosen", "failed"."""


@dataclass(frozen=True)
class ReportTable:
    title: str
    heads: tuple[str, ...]
    rows: tuple[Row, ...]


def sentence(content: Content) -> str:
    """The answer, in one sentence."""
    if content.knee is None:
        return f"{content.label}: {_without_knee(content)}"
    knee = content.knee
    objective = f"p{knee.objective.percent:g} at most {knee.objective.most_ms:g} ms"
    least = "" if knee.bounded else "at least "
    return (
        f"{content.label}: {least}{knee.rps} requests/s at {objective}"
        f", with {knee.load} {'users' if content.curve.loop == 'closed' else 'sent per second'}."
    )


def _without_knee(content: Content) -> str:
    steps = content.curve.valid
    if not steps:
        return "no step counts: the requests of every step were sent late."
    most = max((step.throughput_rps for step in steps), key=lambda rps: rps.value)
    return f"at most {most} requests/s were answered; no load is known to keep an objective."


def where(content: Content) -> str:
    target = content.curve.asked
    digest = target.model_sha256[:12] if target.model_sha256 else target.model_at
    model = f"model {digest or 'unknown'}"
    place = target.instance_type or target.machine
    parts = (f"{target.target} {target.address}", place, model, target.started_at, *target.bodies)
    return " · ".join(part for part in parts if part)


def steps(content: Content) -> ReportTable:
    rows = []
    for step in content.curve.steps:
        used = step.target
        cells = (
            _number(step.load),
            Cell(str(step.throughput_rps), step.throughput_rps.value),
            *(_number(step.latencies.percentile_ms(percent)) for percent in (50, 90, 95, 99)),
            _number(step.failed),
            _number(used.cpu_cores) if used else Cell(""),
            _number(used.memory_mib) if used else Cell(""),
            _number(100 * step.generator_cpu_share),
            _number(step.send_lag_p99_ms),
            Cell(step.refused or ("" if step.known else "throughput not known within 5 %")),
        )
        rows.append(Row(cells, "failed" if step.refused else ""))
    heads = (
        "load", "requests/s", "p50, ms", "p90, ms", "p95, ms", "p99, ms", "failed", "cores busy",
        "memory, MiB", "generator CPU, %", "send lag p99, ms", "",
    )  # fmt: skip
    return ReportTable(f"Steps of {content.label}", heads, tuple(rows))


def trials(content: Content) -> ReportTable:
    names = tuple(content.trials[0].point)
    priced = content.usd_per_hour is not None
    chosen = dict(content.recommendation.choice.kept) if content.recommendation else None
    rows = []
    for trial in content.trials:
        about = trial.measured.about
        rps = about.get("rps")
        cells = (
            _number(trial.number + 1),
            Cell(str(Interval(**rps)), rps["value"]) if rps else Cell(""),
            _number(about["p99_ms"]) if "p99_ms" in about else Cell(""),
            *([_number(about.get("usd_per_million", float("nan")))] if priced else []),
            *(Cell(shown(trial.point[name])) for name in names),
            _number(trial.seconds),
            Cell(trial.measured.failure or ""),
        )
        kind = "failed" if trial.measured.failure else ""
        rows.append(Row(cells, "chosen" if dict(trial.point) == chosen else kind))
    cost = ("$ per million",) if priced else ()
    heads = ("trial", "requests/s", "p99, ms", *cost, *names, "took, s", "")
    return ReportTable(f"Trials of {content.label}", heads, tuple(rows))


def advice(content: Content) -> list[str]:
    """Recommendation of a search, in sentences."""
    recommendation = content.recommendation
    if recommendation is None:
        return []
    lines = [headline(recommendation.choice, content.goal)]
    if recommendation.withheld:
        keys = ", ".join(".".join(change.key) for change in recommendation.withheld)
        lines.append(f"Not written, because measured on this computer: {keys}.")
    else:
        lines.append(
            f"Scaling target: {recommendation.scaling_target_per_minute:,.0f} invocations a minute "
            "and instance."
        )
    return lines


def changes(content: Content) -> ReportTable:
    recommendation = content.recommendation
    rows = [
        Row(tuple(map(Cell, (".".join(change.key), shown(change.value), change.reason, written))))
        for written, several in (
            ("yes", recommendation.changes if recommendation else ()),
            ("no: measured on this computer", recommendation.withheld if recommendation else ()),
        )
        for change in several
    ]
    heads = ("key", "value", "why", "written")
    return ReportTable(f"What {content.label} says", heads, tuple(rows))


def _number(value: float) -> Cell:
    return Cell("") if math.isnan(value) else Cell(readable(value), value)
