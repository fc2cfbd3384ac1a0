"""Output of a comparison: a table of outputs, the latencies, the gate; the same as JSON. No body, no
value."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from infra.parameters.replay import Replay
from model_packaging.beside import beside
from servable.capture_lines import write_line
from servable.captured import CapturedRequest
from servable.precision import readable
from servable.replay.compare.columns import UNSEEN_CHANGE
from servable.replay.compare.comparison import Comparison, WorstRequest
from servable.replay.compare.gate import (
    ReplayVerdict,
    difference_of,
    latency_ratios,
    least_rows,
    most_share,
    percent,
    shown_line,
)
from servable.replay.compare.output_statistics import OutputStatistics

WORST_FILE = "worst.jsonl"
"""The requests that differ most, as a capture file that `servable replay` can play alone."""
SHOWN, MOST_LINES = 5, 20


def lines(comparison: Comparison, limits: Replay, *, side_by_side: bool) -> list[str]:
    """Number of compared requests, a line for each output that differs, worst requests, latencies."""
    share = comparison.differing_rows / comparison.rows if comparison.rows else 0.0
    rows = [
        f"compared: {comparison.compared:,} of {comparison.requests:,} requests; "
        f"{comparison.differing_rows:,} of {comparison.rows:,} rows differ ({percent(share)})"
    ]
    rows += [shown_line(comparison)] if comparison.rows else []
    rows += ignored_lines(comparison)
    rows += unseen_lines(comparison)
    if comparison.without_expected:
        rows.append(f"without a captured answer: {comparison.without_expected:,}")
    if comparison.new_errors:
        rows.append(
            f"failed: {comparison.new_errors:,}, although the expected answer is none of an error"
        )
    if comparison.second_errors:
        rows.append(f"failed by the second known-good target alone: {comparison.second_errors:,}")
    if comparison.mended or comparison.failed_on_both:
        rows.append(
            f"expected errors: {comparison.failed_on_both:,} failed again, {comparison.mended:,} are "
            "answered now"
        )
    several = differing_outputs(comparison)
    rows += [f"  {output.name}: {difference_of(output)}" for output in several[:MOST_LINES]]
    if len(several) > MOST_LINES:
        rows.append(f"  {len(several) - MOST_LINES:,} more outputs differ; --json has all")
    rows += [
        f"  differs most: {request.pair.request.where}, {request.pair.request.event_id}: "
        f"{'; '.join(request.reasons)}"
        for request in comparison.worst[:SHOWN]
    ]
    if comparison.latency.count:
        rows += latency_lines(comparison, limits, side_by_side=side_by_side)
    return rows


def ignored_lines(comparison: Comparison) -> list[str]:
    """Lines with the outputs that are left out; none if all are compared."""
    lines = []
    if comparison.ignored:
        lines.append(f"not compared, ignored by [replay.outputs]: {', '.join(comparison.ignored)}")
    if comparison.allowed:
        names = [f"{name} in {count:,}" for name, count in comparison.allowed.most_common(SHOWN)]
        names += (
            [f"{len(comparison.allowed) - SHOWN:,} more"] if len(comparison.allowed) > SHOWN else []
        )
        lines.append(f"not compared, allowed by [replay] added_outputs: {', '.join(names)}")
    return lines


def unseen_lines(comparison: Comparison) -> list[str]:
    """Lines with the columns that are too small for the tolerance of their rows, by output."""
    lines = []
    for output in comparison.outputs.values():
        if columns := output.columns.unseen:
            names = ", ".join(map(str, columns[:SHOWN]))
            more = f" and {len(columns) - SHOWN:,} more" if len(columns) > SHOWN else ""
            lines.append(
                f"{output.name}: a change of {percent(UNSEEN_CHANGE)} in column {names}{more} of "
                f"{output.columns.count:,} is within the tolerance, since the rows have far larger numbers; "
                f"[replay.outputs] {output.name} = {{ absolute = … }} would find it"
            )
    return lines[:SHOWN]


def differing_outputs(comparison: Comparison) -> list[OutputStatistics]:
    """The outputs that differ, the one with the largest share first."""
    several = [output for output in comparison.outputs.values() if output.differing or output.added]
    return sorted(several, key=lambda output: -output.share)


def latency_lines(comparison: Comparison, limits: Replay, *, side_by_side: bool) -> list[str]:
    before, after = (comparison.latency.latencies(side) for side in (0, 1))
    rows = []
    for percent_, _, ratio in latency_ratios(comparison, limits):
        pair = f"{readable(before.percentile_ms(percent_))} -> {readable(after.percentile_ms(percent_))} ms"
        times = (
            "too few answers for a ratio"
            if ratio is None
            else (f"{ratio.value:.2f} times ({ratio.low:.2f} to {ratio.high:.2f})")
        )
        rows.append(f"latency p{percent_:g}: {pair}; {times}")
    if not side_by_side:
        rows.append(
            "latency: captured at another time and place, so the gate does not judge it; --against asks two "
            "targets side by side"
        )
    return rows


def as_object(
    comparison: Comparison, limits: Replay, gate: ReplayVerdict | None, *, side_by_side: bool
) -> dict[str, Any]:
    """The comparison as JSON. `gate`: None where no gate was asked for."""
    return {
        "requests": comparison.requests,
        "compared": comparison.compared,
        "without_expected": comparison.without_expected,
        "errors": dict(comparison.errors),
        "answered_now": comparison.mended,
        "failed_on_both": comparison.failed_on_both,
        "rows": comparison.rows,
        "differing_rows": comparison.differing_rows,
        "differing_requests": comparison.differing_requests,
        "shown": {
            "confidence": 0.95,
            "most_differing_share": most_share(comparison.differing_rows, comparison.rows),
            "detectable_share": limits.detectable_share,
            "least_rows": least_rows(limits),
        },
        "content_types": [
            {"expected": before, "answered": after, "answers": count}
            for (before, after), count in comparison.content_types.items()
        ],
        "ignored": comparison.ignored,
        "allowed": dict(comparison.allowed),
        "known_good": {"answers": comparison.noisy, "errors": comparison.second_errors},
        "outputs": {one.name: _output(one) for _, one in sorted(comparison.outputs.items())},
        "latency": _latency(comparison, limits, side_by_side),
        "worst": [_worst(request) for request in comparison.worst],
        "gate": None if gate is None else gate.as_object(),
    }


def _output(output: OutputStatistics) -> dict[str, Any]:
    return {
        "rows": output.rows,
        "differing_rows": output.differing,
        "relative_tolerance": output.tolerance,
        "relative": _sketch(output.relative),
        "absolute": _sketch(output.absolute),
        "nan_rows": output.nan,
        "infinite_rows": output.infinite,
        "changed_labels": output.labels,
        "shift": output.shift,
        "changed_top": {str(k): count for k, count in sorted(output.top.items())},
        "problems": dict(output.problems),
        "added": output.added,
        "unseen_columns": output.columns.unseen,
        "noise": {
            "answers": output.noise.answers,
            "disagreeing": output.noise.disagreeing,
            "least_answers": output.noise.least_answers,
        },
        "came_as": output.swapped_with,
    }


def _sketch(sketch: Any) -> dict[str, float | None]:
    numbers = {
        "median": sketch.percentile(50),
        "p99": sketch.percentile(99),
        "largest": sketch.largest if sketch.count else math.nan,
    }
    return {name: _json(value) for name, value in numbers.items()}


def _json(value: float) -> float | None:
    """JSON has neither NaN nor infinity: null for the first, the largest float for the second."""
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else 1.7976931348623157e308


def _latency(comparison: Comparison, limits: Replay, side_by_side: bool) -> dict[str, Any]:
    before, after = (comparison.latency.latencies(side) for side in (0, 1))
    latency: dict[str, Any] = {"requests": comparison.latency.count, "side_by_side": side_by_side}
    for percent_, most, ratio in latency_ratios(comparison, limits):
        latency[f"p{percent_:g}"] = {
            "expected_ms": _json(before.percentile_ms(percent_)),
            "answered_ms": _json(after.percentile_ms(percent_)),
            "ratio": None if ratio is None else asdict(ratio),
            "limit": most,
        }
    return latency


def _worst(request: WorstRequest) -> dict[str, Any]:
    captured = request.pair.request
    return {
        "event_id": captured.event_id,
        "file": captured.file,
        "line": captured.line,
        "reasons": list(request.reasons),
        "tolerances": request.severity if math.isfinite(request.severity) else None,
    }


def write_worst(requests: Sequence[CapturedRequest], folder: Path) -> Path | None:
    """Write requests as a capture file, with mode 0600; None of none. Raises OSError."""
    if not requests:
        return None
    with beside(folder / WORST_FILE) as file:
        for request in requests:
            file.write(write_line(request) + b"\n")
    return folder / WORST_FILE
