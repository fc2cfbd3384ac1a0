"""Write the report page of one or two searches, and draw its charts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from pydantic import TypeAdapter

from model_packaging.beside import write_atomically
from servable.load.objective import Goal
from servable.load.page import LoadContent, build_curve_tabs
from servable.load.page import write as write_page
from servable.measured import document
from servable.measured.document import Cell, Picture, ReportTable, Row, Tab
from servable.measured.precision import Interval
from servable.tune.recommendation import Recommendation, describe_result
from servable.tune.search.recommended import Effect
from servable.tune.search.space import Trial, format_value

# The file of a search's folder that holds all of it.
RUN = "run.json"


@dataclass(frozen=True, kw_only=True)
class Content(LoadContent):
    """The content of a search's page. `trials` and the fields after it are empty for a load test alone."""

    trials: tuple[Trial, ...] = ()
    effects: Mapping[str, tuple[Effect, ...]] = field(default_factory=dict)
    recommendation: Recommendation | None = None
    stopped: str = ""
    goal: Goal = "throughput"
    left_out: Mapping[str, str] = field(default_factory=dict)
    """{setting: why it wasn't tried}."""
    usd_per_hour: float | None = None
    """Price of the instance; None where no source states it, and on this computer."""

    def write(self, file: Path) -> None:
        write_atomically(file, TypeAdapter(Content).dump_json(self))

    @classmethod
    def read(cls, file: Path) -> "Content":
        """Read a content from a file. Raises OSError, ValueError."""
        return TypeAdapter(Content).validate_json(file.read_bytes())


NO_SEARCH = "Not part of this run: it measured one setting. `servable tune` measures many."
_COLUMNS = 3


def draw_trials(contents: Sequence[Content]) -> bytes:
    """Draw requests per second in the order of measurement, and the best value so far."""
    title = "Every trial, in the order of measuring"
    figure = document.create_figure()
    axes = figure.subplots()
    for content, colour in zip(contents, document.OF_RUNS, strict=False):
        values = np.array([trial.measured.value for trial in content.trials])
        numbers = np.array([trial.number + 1 for trial in content.trials])
        ran, failed = values > 0, numbers[values <= 0]
        label = f"{content.label}: measured"
        axes.plot(numbers[ran], values[ran], "o", color=colour, label=label)
        best = np.maximum.accumulate(values)
        places = range(1, len(best) + 1)
        axes.step(places, best, where="post", color=colour, alpha=0.5, label="best so far")
        if len(failed):
            label = "did not run, or broke the objective"
            axes.plot(failed, 0.0 * failed, "x", color=document.RED, markersize=9, label=label)
        if content.recommendation is not None:
            label = f"{content.label}: expected of the choice"
            value = content.recommendation.choice.value
            axes.axhline(value, color=colour, linestyle="--", label=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    dollars = any(content.goal == "cost" for content in contents)
    y = "predictions per dollar" if dollars else "requests per second at the knee"
    document.format_axes(axes, title=title, x="trial", y=y, zero="y")
    return document.render_png(figure)


def draw_effects(content: Content) -> bytes:
    """Draw the expected effect of each value of each setting, the others as chosen."""
    title = f"{content.label}: each setting, the others as chosen; 95 % intervals"
    effects = content.effects
    if not effects:
        return document.draw_empty_chart(NO_SEARCH, title=title)
    rows = -(-len(effects) // _COLUMNS)
    figure = document.create_figure(high=0.8 + 2.3 * rows)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    grid = figure.subplots(rows, _COLUMNS, squeeze=False, sharey=True)
    relative = {name: [effect.relative for effect in values] for name, values in effects.items()}
    lowest = min(interval.low for intervals in relative.values() for interval in intervals)
    highest = max(interval.high for intervals in relative.values() for interval in intervals)
    for axes, (name, intervals) in zip(grid.flat, relative.items(), strict=False):
        places = range(len(intervals))
        document.draw_intervals(axes, places, intervals, fmt="o", color=document.BLUE)
        axes.axhline(1.0, color=document.GREY, linestyle=":", lw=1)
        axes.set_xticks(
            places, [format_value(effect.value) for effect in effects[name]], fontsize=9.5
        )
        axes.set_xlim(-0.5, len(intervals) - 0.5)
        axes.set_ylim(max(0.0, lowest - 0.05), highest + 0.05)
        document.format_axes(axes, x=name, y="", legend=False)
    value = "predictions per dollar" if content.goal == "cost" else "throughput"
    for axes in grid[:, 0]:
        axes.set_ylabel(f"{value}, the choice = 1", fontsize=9.5)
    for axes in grid.flat[len(effects) :]:
        axes.set_visible(False)
    return document.render_png(figure)


def draw_cost(contents: Sequence[Content]) -> bytes:
    """Draw the cost of a million predictions against p99 latency."""
    title = "Cost against latency"
    costs = [_compute_costs(content) for content in contents]
    if not any(costs):
        return document.draw_empty_chart(NO_SEARCH, title=title)
    figure = document.create_figure()
    axes = figure.subplots()
    for content, points, colour in zip(contents, costs, document.OF_RUNS, strict=False):
        label = f"{content.label}: a trial at its knee"
        _draw_points(axes, points, color=colour, label=label)
        if content.recommendation is not None:
            kept = dict(content.recommendation.choice.recommended_point)
            chosen = [point for point in points if dict(point[2].point) == kept]
            look = {"markersize": 14, "markerfacecolor": "none", "color": document.RED}
            _draw_points(axes, chosen, label="the choice", **look)
    priced = all(content.usd_per_hour is not None for content in contents)
    y = "$ per million predictions" if priced else "cost of a prediction, the cheapest = 1"
    document.format_axes(axes, title=title, x="p99 at the knee, ms", y=y, zero="xy")
    return document.render_png(figure)


def _draw_points(axes: Axes, points: Sequence[tuple[float, float, Trial]], **look: Any) -> None:
    axes.plot([p99_ms for p99_ms, _, _ in points], [usd for _, usd, _ in points], "o", **look)


def _compute_costs(content: Content) -> list[tuple[float, float, Trial]]:
    """Return (p99 in ms, cost, trial) of each trial that ran."""
    ran = [
        (trial.measured.about, trial)
        for trial in content.trials
        if trial.measured.value > 0 and "p99_ms" in trial.measured.about
    ]
    priced = all("usd_per_million" in about for about, _ in ran)
    costs = [about["usd_per_million"] if priced else 1 / about["rps"]["value"] for about, _ in ran]
    # Measured on this computer, or without a price: the cheapest is 1.
    unit = 1.0 if priced and content.usd_per_hour is not None else min(costs, default=1.0)
    return [
        (about["p99_ms"], cost / unit, trial)
        for (about, trial), cost in zip(ran, costs, strict=True)
    ]


def write(folder: Path, contents: Sequence[Content], *, diff: str = "") -> Path:
    """Write report.html and pictures/*.png for one run or two runs. Return the page's path."""
    if len(contents) not in (1, 2):
        raise ValueError(f"{len(contents)} runs: a report shows one, or compares two")
    return write_page(folder, contents, build_tabs(contents, diff))


def build_tabs(contents: Sequence[Content], diff: str = "") -> list[Tab]:
    recommendation = _build_recommendation_tabs(contents, diff)
    return [*build_curve_tabs(contents), *_build_search_tabs(contents), *recommendation]


def _build_search_tabs(contents: Sequence[Content]) -> list[Tab]:
    if not any(content.trials for content in contents):
        return []
    ends = [f"{content.label} ended: {content.stopped}." for content in contents if content.stopped]
    table = [_build_trial_table(content) for content in contents if content.trials]
    ends += [
        f"{content.label} didn't try {name}: {why}."
        for content in contents
        for name, why in content.left_out.items()
    ]
    trials = Picture("trials", "every trial's value", draw_trials(contents))
    effects = [
        Picture(name, "what each value of each setting does", draw_effects(content))
        for content, name in zip(contents, ("effects", "effects-2"), strict=False)
    ]
    cost = Picture("cost", "cost against p99 of each trial", draw_cost(contents))
    return [
        Tab("trials", "Trials", [trials], ends, table),
        Tab("settings", "Settings", effects),
        Tab("cost", "Cost", [cost]),
    ]


def _build_recommendation_tabs(contents: Sequence[Content], diff: str) -> list[Tab]:
    advised = [(content, content.recommendation) for content in contents if content.recommendation]
    if not advised:
        return []
    advice = [line for each in advised for line in _describe_advice(*each)]
    changes = [_build_change_table(*each) for each in advised]
    return [Tab("recommendation", "Recommendation", (), advice, changes, diff)]


def _build_trial_table(content: Content) -> ReportTable:
    names = tuple(content.trials[0].point)
    cost = ("$ per million",) if content.usd_per_hour is not None else ()
    chosen = (
        dict(content.recommendation.choice.recommended_point) if content.recommendation else None
    )
    rows = []
    for trial in content.trials:
        about, failure = trial.measured.about, trial.measured.failure
        rps = about.get("rps")
        cells: tuple[Cell, ...] = (
            trial.number + 1,
            (str(Interval(**rps)), rps["value"]) if rps else "",
            about.get("p99_ms", ""),
            *(about.get("usd_per_million", "") for _ in cost),
            *(format_value(trial.point[name]) for name in names),
            trial.seconds,
            failure or "",
        )
        mark = "failed" if failure else ""
        rows.append(Row(cells, "chosen" if dict(trial.point) == chosen else mark))
    heads = ("trial", "requests/s", "p99, ms", *cost, *names, "took, s", "")
    return ReportTable(f"Trials of {content.label}", heads, rows)


def _describe_advice(content: Content, recommendation: Recommendation) -> list[str]:
    """Return the recommendation of a search, in sentences."""
    keys = ", ".join(".".join(change.key) for change in recommendation.withheld)
    target = f"{recommendation.scaling_target_per_minute:,.0f} invocations a minute and instance"
    return [
        describe_result(recommendation.choice, content.goal),
        f"Not written, because measured on this computer: {keys}."
        if keys
        else f"Scaling target: {target}.",
    ]


def _build_change_table(content: Content, recommendation: Recommendation) -> ReportTable:
    several = [(change, "yes") for change in recommendation.changes]
    several += [(change, "no: measured on this computer") for change in recommendation.withheld]
    rows = [
        Row((".".join(change.key), format_value(change.value), change.reason, written))
        for change, written in several
    ]
    heads = ("key", "value", "why", "written")
    return ReportTable(f"What {content.label} says", heads, rows)
