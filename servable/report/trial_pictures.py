"""Pictures of a search: every trial, what each setting does, cost against latency."""

from collections.abc import Sequence
from itertools import accumulate

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from servable.report import style
from servable.report.content import Content
from servable.tune.search.space import shown
from servable.tune.search.trial import Trial

NO_SEARCH = "Not part of this run: it measured one setting. `servable tune` measures many."
_COLUMNS = 3


def trials(contents: Sequence[Content]) -> bytes:
    """Requests per second in the order of measuring, and the best so far."""
    title = "Every trial, in the order of measuring"
    if not any(content.trials for content in contents):
        return style.nothing(NO_SEARCH, title=title)
    figure = style.figure()
    axes = figure.subplots()
    for content, colour in zip(contents, style.OF_RUNS, strict=False):
        ran = [trial for trial in content.trials if trial.measured.value > 0]
        failed = [trial for trial in content.trials if trial.measured.value <= 0]
        axes.plot(
            [trial.number + 1 for trial in ran],
            [trial.measured.value for trial in ran],
            "o",
            color=colour,
            label=f"{content.label}: measured",
        )
        line = list(accumulate((trial.measured.value for trial in content.trials), max))
        numbers = range(1, len(line) + 1)
        axes.step(numbers, line, where="post", color=colour, alpha=0.5, label="best so far")
        if failed:
            axes.plot(
                [trial.number + 1 for trial in failed],
                [0.0] * len(failed),
                "x",
                color=style.RED,
                markersize=9,
                label="did not run, or broke the objective",
            )
        if content.recommendation is not None:
            axes.axhline(
                content.recommendation.choice.value,
                color=colour,
                linestyle="--",
                label=f"{content.label}: expected of the choice",
            )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.finish(axes, title=title, x="trial", y=_value_label(contents))
    style.from_zero(axes)
    return style.png(figure)


def effects(content: Content) -> bytes:
    """Expected effect of each value of each setting, the others as chosen."""
    title = f"{content.label}: each setting, the others as chosen; 95 % intervals"
    if not content.effects:
        return style.nothing(NO_SEARCH, title=title)
    rows = -(-len(content.effects) // _COLUMNS)
    figure = style.figure(high=0.8 + 2.3 * rows)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    _bars(figure, content, rows)
    return style.png(figure)


def _bars(figure: Figure, content: Content, rows: int) -> None:
    effects = content.effects
    what = "predictions per dollar" if content.goal == "cost" else "throughput"
    grid = figure.subplots(rows, _COLUMNS, squeeze=False, sharey=True)
    lowest = min(effect.relative.low for values in effects.values() for effect in values)
    highest = max(effect.relative.high for values in effects.values() for effect in values)
    for axes, (name, values) in zip(grid.flat, effects.items(), strict=False):
        places = range(len(values))
        middle = [effect.relative.value for effect in values]
        errors = style.errors([effect.relative for effect in values])
        axes.errorbar(places, middle, yerr=errors, fmt="o", color=style.BLUE, capsize=3)
        axes.axhline(1.0, color=style.GREY, linestyle=":", lw=1)
        axes.set_xticks(list(places), [shown(effect.value) for effect in values], fontsize=9.5)
        axes.set_xlim(-0.5, len(values) - 0.5)
        axes.set_ylim(max(0.0, lowest - 0.05), highest + 0.05)
        style.finish(axes, title="", x=name, y="", legend=False)
    for axes in grid[:, 0]:
        axes.set_ylabel(f"{what}, the choice = 1", fontsize=9.5)
    for axes in list(grid.flat)[len(effects) :]:
        axes.set_visible(False)


def cost(contents: Sequence[Content]) -> bytes:
    """Cost of a million predictions against p99 latency."""
    title = "Cost against latency"
    points = [(content, _costs(content)) for content in contents]
    if not any(costs for _, costs in points):
        return style.nothing(NO_SEARCH, title=title)
    figure = style.figure()
    axes = figure.subplots()
    for (content, costs), colour in zip(points, style.OF_RUNS, strict=False):
        label = f"{content.label}: a trial at its knee"
        axes.plot(
            [p99 for p99, _, _ in costs],
            [usd for _, usd, _ in costs],
            "o",
            color=colour,
            label=label,
        )
        if content.recommendation is not None:
            chosen = dict(content.recommendation.choice.kept)
            mine = [row for row in costs if dict(row[2].point) == chosen]
            axes.plot(
                [p99 for p99, _, _ in mine],
                [usd for _, usd, _ in mine],
                "o",
                markersize=14,
                markerfacecolor="none",
                color=style.RED,
                label="the choice",
            )
    style.finish(axes, title=title, x="p99 at the knee, ms", y=_cost_label(contents))
    style.from_zero(axes, x=True)
    return style.png(figure)


def _costs(content: Content) -> list[tuple[float, float, Trial]]:
    """(p99 in ms, cost, trial) of each that ran."""
    ran = [
        (float(trial.measured.about["p99_ms"]), float(trial.measured.about["rps"]["value"]), trial)
        for trial in content.trials
        if trial.measured.value > 0 and "p99_ms" in trial.measured.about
    ]
    priced = all("usd_per_million" in trial.measured.about for _, _, trial in ran)
    costs = [
        float(trial.measured.about["usd_per_million"]) if priced else 1 / rps
        for _, rps, trial in ran
    ]
    # Measured on this computer, or without a price: the cheapest is 1.
    unit = 1.0 if priced and content.usd_per_hour is not None else min(costs, default=1.0)
    return [(p99, cost / unit, trial) for (p99, _, trial), cost in zip(ran, costs, strict=True)]


def _cost_label(contents: Sequence[Content]) -> str:
    if all(content.usd_per_hour is not None for content in contents):
        return "$ per million predictions"
    return "cost of a prediction, the cheapest = 1"


def _value_label(contents: Sequence[Content]) -> str:
    dollars = any(content.goal == "cost" for content in contents)
    return "predictions per dollar" if dollars else "requests per second at the knee"
