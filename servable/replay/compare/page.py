"""The page of a comparison: differences by output, the worst requests, latency of both sides."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from infra.parameters.replay import Replay
from servable.load.curve_pictures import slower_than
from servable.pages import document, style
from servable.pages.document import About, Cell, Picture, ReportTable, Row, Tab
from servable.precision import readable
from servable.replay.compare.comparison import Comparison
from servable.replay.compare.gate import (
    ReplayVerdict,
    difference_of,
    latency_ratios,
    percent,
    short,
    shown_line,
)
from servable.replay.compare.output import (
    differing_outputs,
    ignored_lines,
    latency_lines,
    unseen_lines,
)
from servable.replay.compare.output_statistics import OutputStatistics
from servable_tensors.tensors import Array

# Outputs in a picture; the table has all.
_MOST_SHOWN = 12
_LEAST_SHOWN = 1e-12


def write(
    folder: Path,
    comparison: Comparison,
    limits: Replay,
    *,
    title: str,
    where: str,
    gate: ReplayVerdict | None,
    side_by_side: bool,
) -> Path:
    """report.html and pictures/*.png in `folder`. `gate`: None: not asked for. Returns the page."""
    abouts = [About(sentence(comparison, gate), where)]
    shown = tabs(comparison, limits, gate=gate, side_by_side=side_by_side)
    return document.write(folder, shown, title=title, abouts=abouts)


def sentence(comparison: Comparison, gate: ReplayVerdict | None) -> str:
    """The answer, in one sentence."""
    share = comparison.differing_rows / comparison.rows if comparison.rows else 0.0
    verdict = "" if gate is None else f"Gate {gate.held.lower()}: "
    errors = f", and {comparison.new_errors:,} requests failed" if comparison.new_errors else ""
    return (
        f"{verdict}{comparison.differing_rows:,} of {comparison.rows:,} rows differ ({percent(share)}) in "
        f"{comparison.compared:,} compared answers{errors}."
    )


def tabs(
    comparison: Comparison, limits: Replay, *, gate: ReplayVerdict | None, side_by_side: bool
) -> list[Tab]:
    # First what a reader looks for: the gate, where the differences are, and examples.
    texts = [] if gate is None else (gate.lines or ["Every limit of the gate is kept."])
    texts += [f"{shown_line(comparison)}."] if comparison.rows else []
    texts += [f"{line}." for line in unseen_lines(comparison)]
    if not comparison.worst:
        texts.append("No request differs.")
    picture = Picture("outputs", "differences by output", _differences(comparison))
    details = [f"{each.name}: {difference_of(each)}." for each in differing_outputs(comparison)]
    details = [*(details or ["No output differs."]), *ignored_lines(comparison)]
    tables = [_outputs(comparison), *_labels(comparison)]
    several = [
        Tab("differences", "Differences", [picture], texts, [_worst(comparison)]),
        Tab("outputs", "Outputs", (), details, tables),
    ]
    if comparison.latency.count:
        latencies = [
            (name, comparison.latency.latencies(side))
            for side, name in enumerate(("expected", "answered"))
        ]
        alt = "share of requests slower than a latency"
        png = slower_than("Share of requests that are slower than a latency", latencies)
        lines = latency_lines(comparison, limits, side_by_side=side_by_side)
        ratios = _ratios(comparison, limits)
        several.append(Tab("latency", "Latency", [Picture("latency", alt, png)], lines, [ratios]))
    return several


def _outputs(comparison: Comparison) -> ReportTable:
    rows = []
    for output in sorted(comparison.outputs.values(), key=lambda output: -output.share):
        relative, tolerance = output.relative, output.tolerance
        numbers = (relative.percentile(50), relative.percentile(99), relative.largest)
        tops = (f"top {k}: {count:,}" for k, count in sorted(output.top.items()) if count)
        cells: tuple[Cell, ...] = (
            output.name,
            output.rows,
            output.differing,
            *(
                (short(number), number) if relative.count and not math.isnan(number) else ""
                for number in (*numbers, output.absolute.largest)
            ),
            ("exact", 0.0) if tolerance is None else (short(tolerance), tolerance),
            output.nan + output.infinite,
            output.labels,
            ", ".join(tops),
        )
        rows.append(Row(cells, "failed" if output.differing or output.added else ""))
    heads = (
        "output", "rows", "differ", "median, relative", "p99, relative", "largest, relative",
        "largest, absolute", "tolerance", "NaN or infinity", "labels changed", "highest scores changed",
    )  # fmt: skip
    return ReportTable("By output", heads, rows)


def _labels(comparison: Comparison) -> list[ReportTable]:
    rows = [
        Row((output.name, before[:60], after[:60], count))
        for output in comparison.outputs.values()
        for (before, after), count in output.examples.most_common(10)
    ]
    heads = ("output", "expected", "answered", "seen")
    return [ReportTable("Labels that changed, for example", heads, rows)] if rows else []


def _differences(comparison: Comparison) -> bytes:
    """Share of rows that differ, and the spread of relative differences beside the tolerance."""
    outputs = sorted(comparison.outputs.values(), key=lambda output: -output.share)[:_MOST_SHOWN]
    if not outputs:
        return style.nothing("No answer was compared.", title="Differences by output")
    figure = style.figure(high=2.6 + 0.42 * len(outputs))
    shares_axes, spread_axes = figure.subplots(1, 2, sharey=True)
    at = np.arange(len(outputs))[::-1]
    names = [each.name if len(each.name) <= 24 else f"{each.name[:23]}…" for each in outputs]
    shares = [100 * output.share for output in outputs]
    colours = [style.RED if share else style.GREEN for share in shares]
    bars = shares_axes.barh(at, shares, height=0.55, color=colours)
    shares_axes.bar_label(bars, [f" {percent(output.share)}" for output in outputs], fontsize=9.5)
    shares_axes.set_yticks(at, names)
    shares_axes.set_xlim(0, 1.35 * max(*shares, 1e-9))
    _spread(spread_axes, outputs, at)
    style.finish(shares_axes, title="Rows that differ", x="% of rows", y="", legend=False)
    x = "relative difference (log)"
    style.finish(spread_axes, title="Differences beside the tolerance", x=x, y="")
    shares_axes.grid(visible=False, axis="y")
    return style.png(figure)


def _spread(axes: Axes, outputs: Sequence[OutputStatistics], at: Array) -> None:
    rows, tolerances, spreads, colours = [], [], [], []
    for y, output in zip(at, outputs, strict=True):
        relative = output.relative
        if not relative.count or output.tolerance is None:
            axes.text(0.02, y, "compared exactly", va="center", fontsize=9.5, color=style.GREY,
                      transform=axes.get_yaxis_transform())  # fmt: skip
            continue
        rows.append(y)
        tolerances.append(output.tolerance or math.nan)
        spreads.append((relative.percentile(50), relative.percentile(99), relative.largest))
        colours.append(style.RED if output.differing else style.BLUE)
    if rows:
        y = np.array(rows)
        axes.vlines(tolerances, y - 0.35, y + 0.35, color=style.GREY, lw=2, label="tolerance")
        low, high, most = np.clip(spreads, _LEAST_SHOWN, 1e6).T
        axes.hlines(y, low, most, color=colours, lw=1.5)
        axes.scatter(low, y, s=100, marker="|", color=colours, linewidths=2, label="median")
        axes.scatter(high, y, s=36, marker="o", color=colours, label="p99")
        axes.scatter(most, y, s=49, marker=">", color=colours, label="largest")
    axes.set_xscale("log")
    axes.set_xlim(_LEAST_SHOWN / 2, None)
    axes.xaxis.set_major_locator(LogLocator(base=10, numticks=5))
    axes.set_ylim(-0.6, len(outputs) - 0.4)


def _worst(comparison: Comparison) -> ReportTable:
    rows = []
    for worst in comparison.worst:
        severity = readable(worst.severity) if math.isfinite(worst.severity) else ""
        request = (worst.pair.request.event_id, worst.pair.request.where)
        rows.append(Row(("; ".join(worst.reasons), (severity, worst.severity), *request)))
    heads = ("how it differs", "difference, in tolerances", "request", "captured in")
    return ReportTable("Requests that differ most", heads, rows)


def _ratios(comparison: Comparison, limits: Replay) -> ReportTable:
    before, after = (comparison.latency.latencies(side) for side in (0, 1))
    rows = []
    for percent_, most, ratio in latency_ratios(comparison, limits):
        times: tuple[Cell, ...] = ("", "too few answers")
        if ratio is not None:
            times = (f"{ratio.value:.2f}", ratio.value), f"{ratio.low:.2f} to {ratio.high:.2f}"
        both = (before.percentile_ms(percent_), after.percentile_ms(percent_))
        rows.append(Row((f"p{percent_:g}", *both, *times, "none" if most is None else f"{most:g}")))
    heads = ("", "expected, ms", "answered, ms", "ratio", "95 % interval", "limit")
    return ReportTable("Ratio of the latencies", heads, rows)
