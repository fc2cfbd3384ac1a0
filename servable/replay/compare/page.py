"""The page of a comparison: differences by output, the requests that differ most, latency of both sides."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from infra.parameters.replay import Replay
from servable.load.latencies import Latencies, middles_ms
from servable.load.precision import readable
from servable.replay.compare.comparison import Comparison, OutputStatistics
from servable.replay.compare.gate import difference_of, latency_ratios, percent, short
from servable.replay.compare.output import differing_outputs, ignored_lines, latency_lines
from servable.report import style
from servable.report.page import Picture, Tab, render, write_tabs
from servable.report.tables import Cell, ReportTable, Row
from servable_tensors.tensors import Array

# Outputs in a picture; the table has all.
_MOST_SHOWN = 12
_LEAST_SHOWN = 1e-12
_NAMES = ("expected", "answered")


def write(
    folder: Path,
    comparison: Comparison,
    limits: Replay,
    *,
    title: str,
    where: str,
    gate: Sequence[str] | None,
    side_by_side: bool,
) -> Path:
    """report.html and pictures/*.png in `folder`. `gate`: its sentences; None: not asked for. Returns the
    page."""
    tabs = [_outputs(comparison), _worst(comparison)]
    if comparison.latency.count:
        tabs.append(_latency(comparison, limits, side_by_side))
    if gate is not None:
        tabs.insert(0, Tab("gate", "Gate", texts=tuple(gate) or ("Every limit is kept.",)))
    about = {"sentence": sentence(comparison, gate), "where": where}
    return write_tabs(folder, tabs, render(title=title, abouts=[about], tabs=tabs))


def sentence(comparison: Comparison, gate: Sequence[str] | None) -> str:
    """The answer, in one sentence."""
    share = comparison.differing_rows / comparison.rows if comparison.rows else 0.0
    verdict = "" if gate is None else ("Gate not met: " if gate else "Gate met: ")
    errors = f", and {comparison.new_errors:,} requests failed" if comparison.new_errors else ""
    return (
        f"{verdict}{comparison.differing_rows:,} of {comparison.rows:,} rows differ ({percent(share)}) in "
        f"{comparison.compared:,} compared answers{errors}."
    )


def _outputs(comparison: Comparison) -> Tab:
    picture = Picture("outputs", "differences by output", _differences(comparison))
    texts = [f"{one.name}: {difference_of(one)}." for one in differing_outputs(comparison)]
    texts = [*(texts or ["No output differs."]), *ignored_lines(comparison)]
    rows = tuple(
        Row(
            (
                Cell(one.name),
                _number(one.rows),
                _number(one.differing),
                *(_difference(one, value) for value in (one.relative.percentile(50),
                  one.relative.percentile(99), one.relative.largest, one.absolute.largest)),
                Cell("exact" if one.tolerance is None else short(one.tolerance), one.tolerance or 0.0),
                _number(one.nan + one.infinite),
                _number(one.labels),
                Cell(", ".join(f"top {k}: {count:,}" for k, count in sorted(one.top.items()) if count)),
            ),
            "failed" if one.differing or one.added else "",
        )
        for one in sorted(comparison.outputs.values(), key=lambda one: -one.share)
    )  # fmt: skip
    heads = (
        "output", "rows", "differ", "median, relative", "p99, relative", "largest, relative",
        "largest, absolute", "tolerance", "NaN or infinity", "labels changed", "highest scores changed",
    )  # fmt: skip
    tables = [ReportTable("By output", heads, rows)]
    if labels := _labels(comparison):
        tables.append(labels)
    return Tab("outputs", "Outputs", (picture,), tuple(texts), tuple(tables))


def _labels(comparison: Comparison) -> ReportTable | None:
    rows = [
        Row((Cell(output.name), Cell(before[:60]), Cell(after[:60]), _number(count)))
        for output in comparison.outputs.values()
        for (before, after), count in output.examples.most_common(10)
    ]
    heads = ("output", "expected", "answered", "seen")
    return ReportTable("Labels that changed, for example", heads, tuple(rows)) if rows else None


def _differences(comparison: Comparison) -> bytes:
    """Share of rows that differ, and the spread of relative differences beside the tolerance."""
    outputs = sorted(comparison.outputs.values(), key=lambda output: -output.share)[:_MOST_SHOWN]
    title = "Differences by output"
    if not outputs:
        return style.nothing("No answer was compared.", title=title)
    figure = style.figure(high=2.6 + 0.42 * len(outputs))
    left, right = figure.subplots(1, 2, sharey=True)
    at = np.arange(len(outputs))[::-1]
    names = [one.name if len(one.name) <= 24 else f"{one.name[:23]}…" for one in outputs]
    shares = [100 * output.share for output in outputs]
    left.barh(
        at, shares, height=0.55, color=[style.RED if share else style.GREEN for share in shares]
    )
    for y, output, share in zip(at, outputs, shares, strict=True):
        left.text(share, y, f" {percent(output.share)}", va="center", fontsize=9.5)
    left.set_yticks(at, names)
    left.set_xlim(0, 1.35 * max(*shares, 1e-9))
    _spread(right, outputs, at)
    style.finish(left, title="Rows that differ", x="% of rows", y="", legend=False)
    style.finish(
        right, title="Differences beside the tolerance", x="relative difference (log)", y=""
    )
    left.grid(visible=False, axis="y")
    return style.png(figure)


def _spread(axes: Axes, outputs: Sequence[OutputStatistics], at: Array) -> None:
    for number, (y, one) in enumerate(zip(at, outputs, strict=True)):
        first = not number
        if one.tolerance is not None and one.tolerance > 0:
            axes.plot([one.tolerance] * 2, [y - 0.35, y + 0.35], color=style.GREY, lw=2,
                      label="tolerance" if first else None)  # fmt: skip
        if not one.relative.count or one.tolerance is None:
            axes.text(0.02, y, "compared exactly", va="center", fontsize=9.5, color=style.GREY,
                      transform=axes.get_yaxis_transform())  # fmt: skip
            continue
        low, high, most = (
            min(max(value, _LEAST_SHOWN), 1e6)
            for value in (
                one.relative.percentile(50), one.relative.percentile(99), one.relative.largest)
        )  # fmt: skip
        colour = style.RED if one.differing else style.BLUE
        axes.plot([low, most], [y, y], color=colour, lw=1.5)
        axes.plot(low, y, "|", color=colour, ms=10, mew=2, label="median" if first else None)
        axes.plot(high, y, "o", color=colour, ms=6, label="p99" if first else None)
        axes.plot(most, y, ">", color=colour, ms=7, label="largest" if first else None)
    axes.set_xscale("log")
    axes.set_xlim(_LEAST_SHOWN / 2, None)
    axes.xaxis.set_major_locator(LogLocator(base=10, numticks=5))
    axes.set_ylim(-0.6, len(outputs) - 0.4)


def _worst(comparison: Comparison) -> Tab:
    rows = tuple(
        Row(
            (
                Cell("; ".join(request.reasons)),
                Cell(
                    readable(request.severity) if math.isfinite(request.severity) else "",
                    request.severity,
                ),
                Cell(request.pair.request_id),
                Cell(request.pair.request.where),
            )
        )
        for request in comparison.worst
    )
    heads = ("how it differs", "difference, in tolerances", "request", "captured in")
    table = ReportTable("Requests that differ most", heads, rows)
    return Tab("worst", "Requests", texts=() if rows else ("No request differs.",), tables=(table,))


def _latency(comparison: Comparison, limits: Replay, side_by_side: bool) -> Tab:
    figure = style.figure()
    axes = figure.subplots()
    for side, colour in enumerate(style.OF_RUNS):
        _slower(axes, comparison.latency.latencies(side), _NAMES[side], colour)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(style.NUMBERS)
    axes.xaxis.set_minor_locator(LogLocator(base=10, subs=(2.0, 5.0)))
    axes.xaxis.set_minor_formatter(style.NUMBERS)
    axes.tick_params(axis="x", which="minor", labelsize=9.5)
    axes.set_yticks([100, 50, 10, 1, 0.1], ["100", "50 (p50)", "10", "1 (p99)", "0.1"])
    axes.set_ylim(bottom=0.08, top=130)
    style.finish(
        axes,
        title="Share of requests that are slower than a latency",
        x="latency, ms (log)",
        y="slower than that, % (log)",
    )
    picture = Picture("latency", "share of requests slower than a latency", style.png(figure))
    texts = tuple(latency_lines(comparison, limits, side_by_side=side_by_side))
    return Tab("latency", "Latency", (picture,), texts, (_ratios(comparison, limits),))


def _slower(axes: Axes, latencies: Latencies, label: str, colour: str) -> None:
    numbers = sorted(latencies.bins)
    counts = np.cumsum([latencies.bins[number] for number in numbers])
    share = 1 - np.concatenate([[0], counts[:-1]]) / counts[-1]
    axes.step(middles_ms(np.array(numbers)), share * 100, where="post", color=colour, label=label)


def _ratios(comparison: Comparison, limits: Replay) -> ReportTable:
    before, after = (comparison.latency.latencies(side) for side in (0, 1))
    rows = []
    for percent_, most, ratio in latency_ratios(comparison, limits):
        interval = "" if ratio is None else f"{ratio.low:.2f} to {ratio.high:.2f}"
        rows.append(
            Row(
                (
                    Cell(f"p{percent_:g}"),
                    _number(before.percentile_ms(percent_)),
                    _number(after.percentile_ms(percent_)),
                    Cell(
                        "" if ratio is None else f"{ratio.value:.2f}",
                        None if ratio is None else ratio.value,
                    ),
                    Cell(interval or "too few answers"),
                    Cell("none" if most is None else f"{most:g}"),
                )
            )
        )
    heads = ("", "expected, ms", "answered, ms", "ratio", "95 % interval", "limit")
    return ReportTable("Ratio of the latencies", heads, tuple(rows))


def _difference(output: OutputStatistics, value: float) -> Cell:
    known = output.relative.count and not math.isnan(value)
    return Cell(short(value), value) if known else Cell("")


def _number(value: float) -> Cell:
    return Cell("") if math.isnan(value) else Cell(readable(value), value)
