"""The gate of [replay]: compare the differences with the limits, and check whether enough was compared."""

import math
from collections.abc import Iterator, Sequence

from infra.parameters.replay import Replay
from infra.preflight.rendering import format_count
from servable.answers.differences import MISSING
from servable.answers.outputs import WHOLE_BODY
from servable.measured.precision import format_number
from servable.replay.compare.comparison import Comparison, OutputStatistics
from servable.replay.places import SUFFIX, SkipCount
from servable.verdict import GateVerdict, Held

_MOST_ERRORS = 3  # kinds that a sentence names
_MOST_OUTPUTS = 20  # sentences about outputs: JSON whose keys are data has hundreds
# Rows of one request may differ together: fewer requests show nothing about a third of them.
_LEAST_REQUESTS = 10


def check_limits(
    comparison: Comparison, limits: Replay, lines_read: int = 0, skipped: Sequence[SkipCount] = ()
) -> GateVerdict:
    """Compare the differences with the limits, and return the verdict.

    It is not met if a limit is exceeded, inconclusive if too little was compared. `lines_read`:
    captured lines, those of `skipped` included.
    """
    exceeded = list_exceeded(comparison, limits)
    missing = list(_list_missing(comparison, limits, lines_read, skipped))
    held: Held = "NOT met" if exceeded else "cannot be told" if missing else "met"
    return GateVerdict(held, [*exceeded, *missing])


def list_exceeded(comparison: Comparison, limits: Replay) -> list[str]:
    """Return a sentence for each limit that is exceeded."""
    errors, requests = comparison.new_errors, comparison.requests
    sentences = []
    if errors > limits.error_share * requests:
        kinds = comparison.errors.most_common(_MOST_ERRORS)
        sentences.append(
            f"{errors:,} of {requests:,} requests failed "
            f"({_format_share(errors, requests, limits.error_share)}): "
            f"{', '.join(f'{count:,} x {kind}' for kind, count in kinds)}."
        )
    for (before, after), count in comparison.content_types.most_common(_MOST_ERRORS):
        sentences.append(f"{format_count(count, 'response')} came as {after} instead of {before}.")
    most, largest = limits.differing_rows_share, limits.largest_difference
    above = [output for output in comparison.outputs.values() if output.share > most]
    outputs = [
        f"Output {output.name}: {describe_difference(output, most)}."
        for output in sorted(above, key=lambda output: -output.share)
    ]
    if not above and comparison.differing_rows > most * comparison.rows:
        outputs.append(
            f"{comparison.differing_rows:,} of {comparison.rows:,} rows differ in some output (at most "
            f"{format_percent(most)})."
        )
    outputs += [
        f"Output {output.name}: the largest difference is "
        f"{format_difference(output.largest_difference)} of the row's largest number (at most {largest:g})."
        for output in comparison.outputs.values()
        if largest is not None and output.largest_difference > largest
    ]
    if len(outputs) > _MOST_OUTPUTS:
        outputs[_MOST_OUTPUTS:] = [f"{len(outputs) - _MOST_OUTPUTS:,} more limits are exceeded."]
    return sentences + outputs


def compute_least_rows(limits: Replay) -> int:
    """Return the number of rows that a gate needs, by the rule of three.

    If none of so many rows differs, then fewer than `detectable_share` of all rows do, with 95 %
    confidence.
    """
    return math.ceil(round(3 / limits.detectable_share, 6))


def compute_largest_share(differing: int, rows: int) -> float:
    """Return the largest share of all rows that may differ, with 95 % confidence.

    It is 3 / rows if no row differs. It is the 95 % limit of a Poisson count, within 1 %.
    Source: Wilson and Hilferty, The Distribution of Chi-Square, PNAS 17 (1931)
    """
    if not rows:
        return 1.0
    more = differing + 1
    limit = more * (1 - 1 / (9 * more) + 1.645 / (3 * math.sqrt(more))) ** 3 if differing else 3.0
    return min(1.0, limit / rows)


def format_confidence(comparison: Comparison) -> str:
    """Describe the largest share of all rows that may differ, given the compared rows."""
    rows, differing = comparison.rows, comparison.differing_rows
    most = compute_largest_share(differing, rows)
    return (
        f"{differing:,} of {rows:,} rows show that fewer than "
        f"{format_percent(float(f'{most:.2g}'))} of all rows "
        "differ, with 95 % confidence"
    )


def _list_missing(
    comparison: Comparison, limits: Replay, lines_read: int, skipped: Sequence[SkipCount]
) -> Iterator[str]:
    if not comparison.requests:
        yield "No request was replayed, so there are no responses to compare."
        return
    if not comparison.compared and not comparison.errors:
        yield (
            "No response was compared: none was captured, or both sides failed. Capture Output too, or pass "
            "--against."
        )
        return
    if comparison.ignored and not comparison.outputs and not comparison.errors:
        yield "No output was compared: [replay.outputs] ignores every output of the responses."
        return
    count, least = comparison.rows, compute_least_rows(limits)
    rows, responses = format_count(count, "row"), format_count(comparison.compared, "response")
    if count < least:
        less = f"set [replay] detectable_share = {_round_up(3 / count)}" if count > 3 else ""
        yield (
            f"{rows} of {responses} cannot show whether "
            f"{format_percent(limits.detectable_share)} of all rows differ, which needs {least:,} rows: "
            f"replay more requests{less and f', or lower the requirement: {less}'}."
        )
    elif comparison.compared < _LEAST_REQUESTS:
        yield (
            f"{rows} came in {responses}, and rows of one response may differ together: replay at least "
            f"{_LEAST_REQUESTS} requests."
        )
    unread = [one.file for one in skipped if not one.lines and one.file.endswith(SUFFIX)]
    for file in unread[:_MOST_ERRORS]:
        yield f"{file} was not read, so its requests were not compared."
    for missing, of, what in (
        (sum(one.lines for one in skipped), lines_read, "captured lines were skipped"),
        (comparison.without_expected, comparison.requests, "requests have no captured response"),
    ):
        if missing > limits.skipped_share * of:
            yield (
                f"{missing:,} of {of:,} {what} ({format_percent(missing / of)}; [replay] skipped_share "
                f"allows {format_percent(limits.skipped_share)}), and the differences may be in what isn't "
                "compared."
            )
    most, differing = limits.differing_rows_share, comparison.differing_rows
    share = compute_largest_share(differing, count)
    if most and share > most + limits.detectable_share:
        yield (
            f"{differing:,} of {count:,} rows differ, so up to {format_percent(share)} of all may (95 % "
            f"confidence); {format_percent(most)} are allowed to, and the gate must detect "
            f"{format_percent(limits.detectable_share)} more: replay more requests."
        )


def _round_up(share: float) -> str:
    """Round a share up to two significant digits, so that it isn't below `share`."""
    unit = 10.0 ** (math.floor(math.log10(share)) - 1)
    return f"{math.ceil(share / unit - 1e-9) * unit:.2g}"


def describe_difference(output: OutputStatistics, most: float | None = None) -> str:
    """Describe an output's differences as the end of a sentence.

    `most`: the limit, shown next to the share.
    """
    share = _format_share(output.differing_rows, output.rows, most)
    parts = [f"{output.differing_rows:,} of {output.rows:,} rows differ ({share})"]
    if output.added and not output.rows:
        parts = [f"it was added to {format_count(output.added, 'response')}"]
        if output.name == WHOLE_BODY:
            parts.append("a response that can't be read as its content type has only this output")
    for problem, count in output.problems.most_common(_MOST_ERRORS):
        word = "it is missing" if problem == MISSING else problem
        parts.append(f"{word} in {format_count(count, 'response')}")
    if output.nan_rows:
        parts.append(f"NaN on one side in {format_count(output.nan_rows, 'row')}")
    if output.infinite_rows:
        parts.append(f"infinity on one side in {format_count(output.infinite_rows, 'row')}")
    if output.changed_labels:
        parts.append(f"{output.changed_labels:,} labels changed")
    for k, count in sorted(output.changed_top.items()):
        if count:
            parts.append(f"the top {k} changed in {format_count(count, 'row')}")
    if output.relative_tolerance is not None and output.largest_difference:
        parts.append(
            f"the largest difference is {format_difference(output.largest_difference)} of the row's largest "
            f"number, the tolerance {format_difference(output.relative_tolerance)}"
        )
    return "; ".join(parts)


def _format_share(count: int, of: int, most: float | None) -> str:
    """Return a share with its limit.

    If the limit is above 0, the share has the digits that distinguish it from the limit.
    """
    share = format_percent(count / of) if most and of else format_percent_of(count, of)
    return share if most is None else f"{share}; at most {format_percent(most)}"


def format_difference(value: float) -> str:
    """Format a relative difference with two digits, for example 0.0061 or 4.2e-8."""
    return f"{value:.2g}".replace("e-0", "e-")


def format_percent(share: float) -> str:
    """Format a share as a percentage: "12.3 %", "0.01 %", "0 %"."""
    return f"{format_number(float(f'{100 * share:.3g}'))} %"


def format_percent_of(count: int, of: int) -> str:
    """Format count / of as a percentage, with only the digits that are certain.

    The 95 % interval decides: 31 of 37,224 is 0.08 %.
    """
    if not count:
        return format_percent(0.0)
    half_width = 1.96 * math.sqrt((1 - count / of) / count)  # relative, of a binomial count
    digits = 3 if half_width < 0.01 else 2 if half_width < 0.1 else 1
    return format_percent(float(f"{count / of:.{digits}g}"))
