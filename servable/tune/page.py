"""The page of a search, or of two runs beside each other."""

from collections.abc import Sequence
from pathlib import Path

from servable.load.page import curve_tabs
from servable.load.page import write as write_page
from servable.measured.document import Cell, Picture, ReportTable, Row, Tab
from servable.measured.precision import Interval
from servable.tune import trial_pictures
from servable.tune.content import Content
from servable.tune.recommendation import Recommendation, headline
from servable.tune.search.space import shown


def write(folder: Path, contents: Sequence[Content], *, diff: str = "") -> Path:
    """report.html and pictures/*.png; one content, or two to compare. Returns the page."""
    if len(contents) not in (1, 2):
        raise ValueError(f"{len(contents)} runs: a report shows one, or compares two")
    return write_page(folder, contents, tabs(contents, diff))


def tabs(contents: Sequence[Content], diff: str = "") -> list[Tab]:
    throughput, latency, machine = curve_tabs(contents)
    recommendation = _recommendation_tab(contents, diff)
    return [throughput, latency, *_search_tabs(contents), machine, *recommendation]


def _search_tabs(contents: Sequence[Content]) -> list[Tab]:
    if not any(content.trials for content in contents):
        return []
    ends = [f"{content.label} ended: {content.stopped}." for content in contents if content.stopped]
    table = [_trials(content) for content in contents if content.trials]
    trials = Picture("trials", "every trial's value", trial_pictures.trials(contents))
    effects = [
        Picture(name, "what each value of each setting does", trial_pictures.effects(content))
        for content, name in zip(contents, ("effects", "effects-2"), strict=False)
    ]
    cost = Picture("cost", "cost against p99 of each trial", trial_pictures.cost(contents))
    return [
        Tab("trials", "Trials", [trials], ends, table),
        Tab("settings", "Settings", effects),
        Tab("cost", "Cost", [cost]),
    ]


def _recommendation_tab(contents: Sequence[Content], diff: str) -> list[Tab]:
    advised = [(content, content.recommendation) for content in contents if content.recommendation]
    if not advised:
        return []
    advice = [line for each in advised for line in _advice(*each)]
    changes = [_changes(*each) for each in advised]
    return [Tab("recommendation", "Recommendation", (), advice, changes, diff)]


def _trials(content: Content) -> ReportTable:
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


def _advice(content: Content, recommendation: Recommendation) -> list[str]:
    """Recommendation of a search, in sentences."""
    keys = ", ".join(".".join(change.key) for change in recommendation.withheld)
    target = f"{recommendation.scaling_target_per_minute:,.0f} invocations a minute and instance"
    return [
        headline(recommendation.choice, content.goal),
        f"Not written, because measured on this computer: {keys}."
        if keys
        else f"Scaling target: {target}.",
    ]


def _changes(content: Content, recommendation: Recommendation) -> ReportTable:
    several = [(change, "yes") for change in recommendation.changes]
    several += [(change, "no: measured on this computer") for change in recommendation.withheld]
    rows = [
        Row((".".join(change.key), shown(change.value), change.reason, written))
        for change, written in several
    ]
    heads = ("key", "value", "why", "written")
    return ReportTable(f"What {content.label} says", heads, rows)
