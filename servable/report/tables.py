"""Sentences and tables of a run's page."""

from servable.load.precision import Interval
from servable.report.content import Content
from servable.report.document import About, Cell, ReportTable, Row
from servable.tune.recommendation import Recommendation, headline
from servable.tune.search.space import shown


def about(content: Content) -> About:
    """Answer in one sentence, and where it was measured."""
    measured = content.curve.asked
    digest = measured.model_sha256[:12] if measured.model_sha256 else measured.model_at
    place = measured.instance_type or measured.machine
    parts = (f"{measured.target} {measured.address}", place, f"model {digest or 'unknown'}")
    where = (*parts, measured.started_at, *measured.bodies)
    return About(f"{content.label}: {_answer(content)}", " · ".join(filter(None, where)))


def _answer(content: Content) -> str:
    steps, knee = content.curve.valid, content.knee
    if knee is not None:
        objective = f"p{knee.objective.percent:g} at most {knee.objective.most_ms:g} ms"
        least = "" if knee.bounded else "at least "
        unit = "users" if content.curve.loop == "closed" else "sent per second"
        return f"{least}{knee.rps} requests/s at {objective}, with {knee.load} {unit}."
    if not steps:
        return "no step counts: the requests of every step were sent late."
    most = max((step.throughput_rps for step in steps), key=lambda rps: rps.value)
    return f"at most {most} requests/s were answered; no load is known to keep an objective."


def steps(content: Content) -> ReportTable:
    rows = []
    for step in content.curve.steps:
        used = step.target
        cells: tuple[Cell, ...] = (
            step.load,
            (str(step.throughput_rps), step.throughput_rps.value),
            *(step.latencies.percentile_ms(percent) for percent in (50, 90, 95, 99)),
            step.failed,
            *((used.cpu_cores, used.memory_mib) if used else ("", "")),
            100 * step.generator_cpu_share,
            step.send_lag_p99_ms,
            step.refused or ("" if step.known else "throughput not known within 5 %"),
        )
        rows.append(Row(cells, "failed" if step.refused else ""))
    heads = (
        "load", "requests/s", "p50, ms", "p90, ms", "p95, ms", "p99, ms", "failed", "cores busy",
        "memory, MiB", "generator CPU, %", "send lag p99, ms", "",
    )  # fmt: skip
    return ReportTable(f"Steps of {content.label}", heads, rows)


def trials(content: Content) -> ReportTable:
    names = tuple(content.trials[0].point)
    cost = ("$ per million",) if content.usd_per_hour is not None else ()
    chosen = dict(content.recommendation.choice.kept) if content.recommendation else None
    rows = []
    for trial in content.trials:
        about, failure = trial.measured.about, trial.measured.failure
        rps = about.get("rps")
        cells: tuple[Cell, ...] = (
            trial.number + 1,
            (str(Interval(**rps)), rps["value"]) if rps else "",
            about.get("p99_ms", ""),
            *(about.get("usd_per_million", "") for _ in cost),
            *(shown(trial.point[name]) for name in names),
            trial.seconds,
            failure or "",
        )
        mark = "failed" if failure else ""
        rows.append(Row(cells, "chosen" if dict(trial.point) == chosen else mark))
    heads = ("trial", "requests/s", "p99, ms", *cost, *names, "took, s", "")
    return ReportTable(f"Trials of {content.label}", heads, rows)


def advice(content: Content, recommendation: Recommendation) -> list[str]:
    """Recommendation of a search, in sentences."""
    keys = ", ".join(".".join(change.key) for change in recommendation.withheld)
    target = f"{recommendation.scaling_target_per_minute:,.0f} invocations a minute and instance"
    return [
        headline(recommendation.choice, content.goal),
        f"Not written, because measured on this computer: {keys}."
        if keys
        else f"Scaling target: {target}.",
    ]


def changes(content: Content, recommendation: Recommendation) -> ReportTable:
    several = [(change, "yes") for change in recommendation.changes]
    several += [(change, "no: measured on this computer") for change in recommendation.withheld]
    rows = [
        Row((".".join(change.key), shown(change.value), change.reason, written))
        for change, written in several
    ]
    heads = ("key", "value", "why", "written")
    return ReportTable(f"What {content.label} says", heads, rows)
