"""Write the report page of one or two searches, and draw its charts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from matplotlib.ticker import MaxNLocator
from pydantic import TypeAdapter

from model_packaging.beside import write_atomically
from servable.load.objective import Goal, compute_usd_per_million
from servable.load.page import LoadContent, build_curve_tabs
from servable.load.page import write as write_page
from servable.measured import document
from servable.measured.document import Cell, Picture, ReportTable, Row, Tab
from servable.measured.precision import Interval
from servable.tune.recommendation import Recommendation, describe_result
from servable.tune.search.space import Trial, format_value

# The file in a search's folder that contains the whole result.
RUN = "run.json"


@dataclass(frozen=True, kw_only=True)
class Content(LoadContent):
    """The content of a search's page. For a load test, only `label`, `curve`, and `knee` are set."""

    trials: tuple[Trial, ...] = ()
    recommendation: Recommendation | None = None
    stopped: str = ""
    goal: Goal = "throughput"
    left_out: Mapping[str, str] = field(default_factory=dict)
    """{setting: why it wasn't tried}."""
    usd_per_hour: float | None = None
    """Price of the instance; None if no source states it or the target is this computer."""

    @property
    def usd_per_million(self) -> float | None:
        """Return dollars per million predictions; None on this computer, or without a price."""
        if self.usd_per_hour is None or self.recommendation is None:
            return None
        return compute_usd_per_million(self.recommendation.rps.value, self.usd_per_hour)

    def write(self, file: Path) -> None:
        write_atomically(file, TypeAdapter(Content).dump_json(self))

    @classmethod
    def read(cls, file: Path) -> "Content":
        """Read a content from a file. Raises OSError, ValueError."""
        return TypeAdapter(Content).validate_json(file.read_bytes())


def draw_trials(contents: Sequence[Content]) -> bytes:
    """Draw requests per second in the order of measurement, and the best value so far."""
    title = "Every trial, in the order of measurement"
    figure = document.create_figure()
    axes = figure.subplots()
    for content, colour in zip(contents, document.OF_RUNS, strict=False):
        values = np.array([trial.measured.value for trial in content.trials])
        numbers = np.array([trial.number + 1 for trial in content.trials])
        ran, failed = values > 0, numbers[values <= 0]
        label = f"{content.label}: measured"
        axes.plot(numbers[ran], values[ran], "o", color=colour, label=label)
        best = np.maximum.accumulate(values)
        axes.step(numbers, best, where="post", color=colour, alpha=0.5, label="best so far")
        if len(failed):
            label = "didn't run, or missed the objective"
            axes.plot(failed, 0.0 * failed, "x", color=document.RED, markersize=9, label=label)
        if content.recommendation is not None:
            label = f"{content.label}: expected value of the choice"
            value = content.recommendation.choice.value
            axes.axhline(value, color=colour, linestyle="--", label=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    dollars = any(content.goal == "cost" for content in contents)
    y = "predictions per dollar" if dollars else "requests per second at the knee"
    document.format_axes(axes, title=title, x="trial", y=y, zero="y")
    return document.render_png(figure)


def write(folder: Path, contents: Sequence[Content], *, diff: str = "") -> Path:
    """Write report.html and pictures/*.png for one run or two runs. Return the page's path."""
    return write_page(folder, contents, build_tabs(contents, diff))


def build_tabs(contents: Sequence[Content], diff: str = "") -> list[Tab]:
    """Build the tabs of the curves, and those of searches if there are any."""
    tabs = build_curve_tabs(contents)
    if searches := [content for content in contents if content.trials]:
        tables = [_build_trial_table(content) for content in searches]
        ends = [f"{content.label} ended: {content.stopped}." for content in searches]
        ends += [
            f"{content.label} didn't try {name}: {why}."
            for content in searches
            for name, why in content.left_out.items()
        ]
        trials = Picture("trials", "every trial's value", draw_trials(contents))
        tabs.append(Tab("trials", "Trials", [trials], ends, tables))
    lines, tables = [], []
    for content in contents:
        if advice := content.recommendation:
            lines.append(describe_result(advice.choice, content.goal))
            tables.append(_build_recommendation_table(content.label, advice))
    if tables:
        tabs.append(Tab("recommendation", "Recommendation", (), lines, tables, diff))
    return tabs


def _build_recommendation_table(label: str, advice: Recommendation) -> ReportTable:
    rows = [
        Row((".".join(change.key), format_value(change.value), change.reason, written))
        for changes, written in (
            (advice.changes, "yes"),
            (advice.withheld, "no: measured on this computer"),
        )
        for change in changes
    ]
    return ReportTable(f"Recommendation of {label}", ("key", "value", "why", "written"), rows)


def _build_trial_table(content: Content) -> ReportTable:
    names = tuple(content.trials[0].point)
    cost = ("$ per million",) if content.usd_per_hour is not None else ()
    advice = content.recommendation
    chosen = advice.choice.recommended_point if advice else None
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
        rows.append(Row(cells, "chosen" if trial.point == chosen else mark))
    heads = ("trial", "requests/s", "p99, ms", *cost, *names, "took, s", "")
    return ReportTable(f"Trials of {content.label}", heads, rows)
