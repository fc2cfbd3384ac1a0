"""Pictures of a search: every trial, what each setting does, cost against latency."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from servable.measured import style
from servable.tune.content import Content
from servable.tune.search.space import shown
from servable.tune.search.trial import Trial

NO_SEARCH = "Not part of this run: it measured one setting. `servable tune` measures many."
_COLUMNS = 3


def trials(contents: Sequence[Content]) -> bytes:
    """Requests per second in the order of measuring, and the best so far."""
    title = "Every trial, in the order of measuring"
    figure = style.figure()
    axes = figure.subplots()
    for content, colour in zip(contents, style.OF_RUNS, strict=False):
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
            axes.plot(failed, 0.0 * failed, "x", color=style.RED, markersize=9, label=label)
        if content.recommendation is not None:
            label = f"{content.label}: expected of the choice"
            value = content.recommendation.choice.value
            axes.axhline(value, color=colour, linestyle="--", label=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    dollars = any(content.goal == "cost" for content in contents)
    y = "predictions per dollar" if dollars else "requests per second at the knee"
    style.finish(axes, title=title, x="trial", y=y, zero="y")
    return style.png(figure)


def effects(content: Content) -> bytes:
    """Expected effect of each value of each setting, the others as chosen."""
    title = f"{content.label}: each setting, the others as chosen; 95 % intervals"
    effects = content.effects
    if not effects:
        return style.nothing(NO_SEARCH, title=title)
    rows = -(-len(effects) // _COLUMNS)
    figure = style.figure(high=0.8 + 2.3 * rows)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    grid = figure.subplots(rows, _COLUMNS, squeeze=False, sharey=True)
    relative = {name: [effect.relative for effect in values] for name, values in effects.items()}
    lowest = min(interval.low for intervals in relative.values() for interval in intervals)
    highest = max(interval.high for intervals in relative.values() for interval in intervals)
    for axes, (name, intervals) in zip(grid.flat, relative.items(), strict=False):
        places = range(len(intervals))
        style.intervals(axes, places, intervals, fmt="o", color=style.BLUE)
        axes.axhline(1.0, color=style.GREY, linestyle=":", lw=1)
        axes.set_xticks(places, [shown(effect.value) for effect in effects[name]], fontsize=9.5)
        axes.set_xlim(-0.5, len(intervals) - 0.5)
        axes.set_ylim(max(0.0, lowest - 0.05), highest + 0.05)
        style.finish(axes, x=name, y="", legend=False)
    value = "predictions per dollar" if content.goal == "cost" else "throughput"
    for axes in grid[:, 0]:
        axes.set_ylabel(f"{value}, the choice = 1", fontsize=9.5)
    for axes in grid.flat[len(effects) :]:
        axes.set_visible(False)
    return style.png(figure)


def cost(contents: Sequence[Content]) -> bytes:
    """Cost of a million predictions against p99 latency."""
    title = "Cost against latency"
    costs = [_costs(content) for content in contents]
    if not any(costs):
        return style.nothing(NO_SEARCH, title=title)
    figure = style.figure()
    axes = figure.subplots()
    for content, points, colour in zip(contents, costs, style.OF_RUNS, strict=False):
        label = f"{content.label}: a trial at its knee"
        _draw(axes, points, color=colour, label=label)
        if content.recommendation is not None:
            kept = dict(content.recommendation.choice.kept)
            chosen = [point for point in points if dict(point[2].point) == kept]
            look = {"markersize": 14, "markerfacecolor": "none", "color": style.RED}
            _draw(axes, chosen, label="the choice", **look)
    priced = all(content.usd_per_hour is not None for content in contents)
    y = "$ per million predictions" if priced else "cost of a prediction, the cheapest = 1"
    style.finish(axes, title=title, x="p99 at the knee, ms", y=y, zero="xy")
    return style.png(figure)


def _draw(axes: Axes, points: Sequence[tuple[float, float, Trial]], **look: Any) -> None:
    axes.plot([p99_ms for p99_ms, _, _ in points], [usd for _, usd, _ in points], "o", **look)


def _costs(content: Content) -> list[tuple[float, float, Trial]]:
    """(p99 in ms, cost, trial) of each that ran."""
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
