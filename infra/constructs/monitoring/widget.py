"""Widgets of a CloudWatch dashboard.

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk

from infra.constructs.monitoring.measured import PERIOD_SECONDS, Measured, Metric

HEIGHT = 6  # CloudWatch's own: 24 columns, rows of any height
REGION = cdk.Aws.REGION  # read once, because each read is a round trip to jsii


@dataclass(frozen=True, kw_only=True)
class Widget:
    """A widget of a `kind` with its `properties`; its row determines its width and position."""

    kind: str
    properties: dict[str, Any]
    height: int = HEIGHT


@dataclass(frozen=True, kw_only=True)
class Line:
    """A horizontal line in a graph."""

    value: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Side:
    """The metrics of one axis, which begins at 0."""

    label: str
    metrics: Sequence[Metric]
    lines: Sequence[Line] = ()


def graph(title: str, *, left: Side, right: Side | None = None) -> Widget:
    """A graph of metrics over time."""
    drawn, lines, axes = [], [], {}
    for position, side in {"left": left, "right": right}.items():
        if side is None:
            continue
        axes[position] = {"label": side.label, "min": 0, "showUnits": False}
        for metric in side.metrics:
            drawn += _rows(metric, {} if position == "left" else {"yAxis": position})
        for line in side.lines:
            value = number(line.value)
            lines.append({"value": value, "label": line.label, "yAxis": position})
    properties = {
        "view": "timeSeries",
        "title": title,
        "region": REGION,
        "metrics": drawn,
        **({"annotations": {"horizontal": lines}} if lines else {}),
        "yAxis": axes,
    }
    return Widget(kind="metric", properties=properties)


def body(rows: Sequence[tuple[int, Sequence[Widget]]]) -> str:
    """The dashboard's body: rows of widgets, each with as many columns. It may contain CDK's tokens."""
    placed: list[dict[str, Any]] = []
    y = 0
    for width, row in rows:
        for number, widget in enumerate(row):
            size = {"width": width, "height": widget.height, "x": number * width, "y": y}
            placed.append({"type": widget.kind, **size, "properties": widget.properties})
        y += max(widget.height for widget in row)
    return json.dumps({"widgets": placed}, ensure_ascii=False, separators=(",", ":"))


def number(value: float) -> float:
    """The number, without .0 if it is whole, as JavaScript writes JSON."""
    return int(value) if value == int(value) else value


def _rows(metric: Metric, axis: dict[str, str]) -> list[list[Any]]:
    """A metric's row; for an expression, also the hidden rows of the metrics that it uses."""
    label = {"label": metric.label} if metric.label else {}
    if isinstance(metric, Measured):
        return [_row(metric, {**label}, axis)]
    period = max(PERIOD_SECONDS, metric.period_seconds)
    rows: list[list[Any]] = [[{**label, "expression": metric.expression, "period": period, **axis}]]
    for name, operand in metric.using.items():
        rows.append(_row(operand, {"id": name, "visible": False}, {}))
    return rows


def _row(metric: Measured, first: dict[str, Any], last: dict[str, Any]) -> list[Any]:
    dimensions = [part for pair in sorted(metric.dimensions.items()) for part in pair]
    # The mean is CloudWatch's own default.
    stat = {} if metric.statistic == "Average" else {"stat": metric.statistic}
    # Shorter periods are kept for three hours only, and a dashboard shows more.
    # https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch-enhanced-metrics.html (2026-11-22)
    period = max(PERIOD_SECONDS, metric.period_seconds)
    shown = {**first, "period": period, **stat, **last}
    return [metric.namespace, metric.name, *dimensions, shown]
