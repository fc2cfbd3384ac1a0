"""Write the page of a comparison: the verdict, the outputs that differ, and the worst requests."""

import math
from pathlib import Path

import numpy as np

from servable.measured import document
from servable.measured.document import About, Cell, Picture, ReportTable, Row, Tab
from servable.measured.precision import format_number
from servable.replay.compare.comparison import Comparison
from servable.replay.compare.gate import (
    describe_difference,
    format_confidence,
    format_difference,
    format_percent_of,
)
from servable.replay.compare.output import list_differing_outputs, list_ignored, list_unseen
from servable.verdict import GateVerdict

# The maximum number of outputs in the chart; the table has all.
_MOST_SHOWN = 12


def write_page(
    folder: Path, comparison: Comparison, *, title: str, where: str, gate: GateVerdict | None
) -> Path:
    """Write report.html and pictures/*.png in `folder`, and return the page's path.

    `gate`: None without --gate.
    """
    about = About(summarize(comparison, gate), where, None if gate is None else gate.verdict)
    return document.write(folder, build_tabs(comparison, gate), title=title, abouts=[about])


def summarize(comparison: Comparison, gate: GateVerdict | None) -> str:
    """Return the result in one sentence."""
    words = {"met": "met", "NOT met": "not met", "cannot be told": "inconclusive"}
    verdict = "" if gate is None else f"The gate is {words[gate.held]}: "
    share = format_percent_of(comparison.differing_rows, comparison.rows)
    errors = f", and {comparison.new_errors:,} requests failed" if comparison.new_errors else ""
    return (
        f"{verdict}{comparison.differing_rows:,} of {comparison.rows:,} rows differ ({share}) in "
        f"{comparison.compared:,} compared responses{errors}."
    )


def build_tabs(comparison: Comparison, gate: GateVerdict | None) -> list[Tab]:
    texts = [] if gate is None else list(gate.lines or ["Every limit of the gate is met."])
    texts += [f"{format_confidence(comparison)}."] if comparison.rows else []
    texts += [f"{line}." for line in list_unseen(comparison)]
    texts += [] if comparison.worst_requests else ["No request differs."]
    details = [
        f"{each.name}: {describe_difference(each)}." for each in list_differing_outputs(comparison)
    ]
    details = [*(details or ["No output differs."]), *list_ignored(comparison)]
    chart = draw_shares(comparison)
    pictures = [] if chart is None else [Picture("outputs", "rows that differ, by output", chart)]
    worst = [_build_worst_requests_table(comparison)] if comparison.worst_requests else []
    return [
        Tab("differences", "Differences", pictures, texts, worst),
        Tab("outputs", "Outputs", (), details, [_build_outputs_table(comparison)]),
    ]


def _build_outputs_table(comparison: Comparison) -> ReportTable:
    rows = []
    for output in sorted(comparison.outputs.values(), key=lambda output: -output.share):
        tolerance, largest = output.relative_tolerance, output.largest_difference
        tops = (f"top {k}: {count:,}" for k, count in sorted(output.changed_top.items()) if count)
        cells: tuple[Cell, ...] = (
            output.name,
            output.rows,
            output.differing_rows,
            "" if tolerance is None else (format_difference(largest), largest),
            ("exact", 0.0) if tolerance is None else (format_difference(tolerance), tolerance),
            output.nan_rows + output.infinite_rows,
            output.changed_labels,
            ", ".join(tops),
        )
        rows.append(Row(cells, "failed" if output.differing_rows or output.added else ""))
    heads = (
        "output", "rows", "differ", "largest difference", "tolerance", "NaN or infinity", "labels changed",
        "highest scores changed",
    )  # fmt: skip
    return ReportTable("By output", heads, rows)


def draw_shares(comparison: Comparison) -> bytes | None:
    """Draw the share of differing rows for each output, or return None if no output differs."""
    outputs = list_differing_outputs(comparison)[:_MOST_SHOWN]
    if not outputs:
        return None
    figure = document.create_figure(high=1.4 + 0.42 * len(outputs))
    axes = figure.subplots()
    at = np.arange(len(outputs))[::-1]
    shares = [100 * output.share for output in outputs]
    bars = axes.barh(at, shares, height=0.55, color=document.RED)
    labels = [
        f" {format_percent_of(output.differing_rows, output.rows)}" if output.rows else " added"
        for output in outputs
    ]
    axes.bar_label(bars, labels, fontsize=9.5)
    names = [each.name if len(each.name) <= 24 else f"{each.name[:23]}…" for each in outputs]
    axes.set_yticks(at, names)
    axes.set_xlim(0, 1.15 * max(shares))
    axes.set_ylim(-0.6, len(outputs) - 0.4)
    document.format_axes(axes, title="Rows that differ", x="% of rows", y="", legend=False)
    axes.grid(visible=False, axis="y")
    return document.render_png(figure)


def _build_worst_requests_table(comparison: Comparison) -> ReportTable:
    rows = []
    for worst in comparison.worst_requests:
        severity = format_number(worst.severity) if math.isfinite(worst.severity) else ""
        request = (worst.pair.request.event_id, worst.pair.request.location)
        rows.append(Row(("; ".join(worst.reasons), (severity, worst.severity), *request)))
    heads = ("how it differs", "difference, in tolerances", "request", "captured in")
    return ReportTable("Requests that differ most", heads, rows)
