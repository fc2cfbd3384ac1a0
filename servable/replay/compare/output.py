"""Print a comparison as lines and as JSON, and write the requests that differ most.

The lines and the JSON contain no body and no value.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra.parameters.replay import Replay
from model_packaging.beside import write_atomically
from servable.captured.lines import format_line
from servable.replay.compare.comparison import (
    UNSEEN_CHANGE,
    Comparison,
    OutputStatistics,
    WorstRequest,
)
from servable.replay.compare.gate import (
    compute_largest_share,
    compute_least_rows,
    describe_difference,
    format_confidence,
    format_percent,
    format_percent_of,
)
from servable.verdict import GateVerdict

WORST_FILE = "worst.jsonl"
"""The requests that differ most, as a capture file that `servable replay` can send alone."""
SHOWN, MOST_LINES = 5, 20


def format_lines(comparison: Comparison) -> list[str]:
    """Return a summary line, a line for each output that differs, and the worst requests."""
    rows = [
        f"compared: {comparison.compared:,} of {comparison.requests:,} requests; "
        f"{comparison.differing_rows:,} of {comparison.rows:,} rows differ "
        f"({format_percent_of(comparison.differing_rows, comparison.rows)})"
    ]
    rows += [format_confidence(comparison)] if comparison.rows else []
    rows += list_ignored(comparison)
    rows += list_unseen(comparison)
    if comparison.without_expected:
        rows.append(f"without a captured response: {comparison.without_expected:,}")
    if comparison.new_errors:
        rows.append(
            f"failed: {comparison.new_errors:,}, although the expected response isn't an error"
        )
    if comparison.answered_now or comparison.failed_on_both:
        rows.append(
            f"expected errors: {comparison.failed_on_both:,} failed again, "
            f"{comparison.answered_now:,} succeed now"
        )
    several = list_differing_outputs(comparison)
    rows += [f"  {output.name}: {describe_difference(output)}" for output in several[:MOST_LINES]]
    if len(several) > MOST_LINES:
        rows.append(f"  {len(several) - MOST_LINES:,} more outputs differ; --json has all")
    rows += [
        f"  differs most: {request.pair.request.location}, {request.pair.request.event_id}: "
        f"{'; '.join(request.reasons)}"
        for request in comparison.worst_requests[:SHOWN]
    ]
    return rows


def list_ignored(comparison: Comparison) -> list[str]:
    """Return lines with the outputs that are left out, or [] if all are compared."""
    lines, allowed = [], comparison.allowed
    if comparison.ignored:
        lines.append(f"not compared, ignored by [replay.outputs]: {', '.join(comparison.ignored)}")
    if allowed:
        names = [f"{name} in {count:,}" for name, count in allowed.most_common(SHOWN)]
        more = f", {len(allowed) - SHOWN:,} more" if len(allowed) > SHOWN else ""
        lines.append(f"not compared, allowed by [replay] added_outputs: {', '.join(names)}{more}")
    return lines


def list_unseen(comparison: Comparison) -> list[str]:
    """Return a line for each output with columns too small for the tolerance of their rows."""
    lines = []
    for output in comparison.outputs.values():
        if columns := output.columns.unseen_columns:
            names = ", ".join(map(str, columns[:SHOWN]))
            more = f" and {len(columns) - SHOWN:,} more" if len(columns) > SHOWN else ""
            lines.append(
                f"{output.name}: a change of {format_percent(UNSEEN_CHANGE)} in column {names}{more} of "
                f"{output.columns.count:,} is within the tolerance, since the rows have far larger numbers; "
                f"[replay.outputs] {output.name} = {{ absolute = … }} would find it"
            )
    return lines[:SHOWN]


def list_differing_outputs(comparison: Comparison) -> list[OutputStatistics]:
    """Return the outputs that differ, in descending order of their shares."""
    several = [output for output in comparison.outputs.values() if output.share]
    return sorted(several, key=lambda output: -output.share)


def build_json(comparison: Comparison, limits: Replay, gate: GateVerdict | None) -> dict[str, Any]:
    """Convert the comparison to JSON-compatible data. `gate`: None without --gate."""
    names = (
        "requests", "compared", "without_expected", "errors", "answered_now", "failed_on_both", "rows",
        "differing_rows", "differing_requests", "ignored", "allowed",
    )  # fmt: skip
    return {
        **{name: getattr(comparison, name) for name in names},
        "shown": {
            "confidence": 0.95,
            "most_differing_share": compute_largest_share(
                comparison.differing_rows, comparison.rows
            ),
            "detectable_share": limits.detectable_share,
            "least_rows": compute_least_rows(limits),
        },
        "content_types": [
            {"expected": before, "answered": after, "answers": count}
            for (before, after), count in comparison.content_types.items()
        ],
        "outputs": {
            one.name: _describe_output(one) for _, one in sorted(comparison.outputs.items())
        },
        "worst": [
            {
                "event_id": worst.pair.request.event_id,
                "file": worst.pair.request.file,
                "line": worst.pair.request.line,
                "reasons": list(worst.reasons),
                "tolerances": worst.severity if math.isfinite(worst.severity) else None,
            }
            for worst in comparison.worst_requests
        ],
        "gate": None if gate is None else gate.as_object(),
    }


def _describe_output(output: OutputStatistics) -> dict[str, Any]:
    found = {name: value for name, value in vars(output).items() if name not in ("name", "columns")}
    return found | {
        # JSON has no infinity; the largest float replaces it.
        "largest_difference": min(output.largest_difference, sys.float_info.max),
        "changed_top": {str(k): count for k, count in sorted(output.changed_top.items())},
        "unseen_columns": output.columns.unseen_columns,
    }


def write_worst_requests(worst: Sequence[WorstRequest], folder: Path) -> Path | None:
    """Write requests as a capture file with mode 0600, and return its path.

    Returns None if there are no requests. Raises OSError.
    """
    if worst:
        lines = [format_line(one.pair.request) + b"\n" for one in worst]
        write_atomically(folder / WORST_FILE, b"".join(lines))
    return folder / WORST_FILE if worst else None
