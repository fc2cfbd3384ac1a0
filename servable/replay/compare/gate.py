"""The limits of [replay] against what a comparison saw: a sentence for each that is exceeded."""

from collections.abc import Iterator

from infra.parameters.replay import Replay
from servable.precision import Interval, readable
from servable.replay.compare.comparison import Comparison, OutputStatistics
from servable.replay.compare.difference import MISSING

_MOST_ERRORS = 3  # kinds that a sentence names
_MOST_OUTPUTS = 20  # sentences about outputs: JSON whose keys are data has hundreds


def exceeded(comparison: Comparison, limits: Replay, *, side_by_side: bool) -> list[str]:
    """Return a sentence for each limit that is exceeded; none: the gate is passed.

    `side_by_side`: the expected answers come from a target that was asked in turns with the other, so that
    latencies can be compared.
    """
    if not comparison.requests:
        return ["No request was replayed, so nothing is known of the answers."]
    if not comparison.compared and not comparison.errors:
        return [
            "No answer was compared: none was captured, or both sides failed. Capture Output too, or give "
            "--against."
        ]
    outputs = [*_rows(comparison, limits), *_largest(comparison, limits)]
    if len(outputs) > _MOST_OUTPUTS:
        outputs[_MOST_OUTPUTS:] = [f"{len(outputs) - _MOST_OUTPUTS:,} more limits are exceeded."]
    if comparison.ignored and not comparison.outputs and not comparison.errors:
        return ["No output was compared: [replay.outputs] ignores all that the answers hold."]
    return [
        *_errors(comparison, limits),
        *(
            f"{answers(count)} came as {after} instead of {before}."
            for (before, after), count in comparison.content_types.most_common(_MOST_ERRORS)
        ),
        *outputs,
        *(_latency(comparison, limits) if side_by_side else ()),
    ]


def latency_ratios(
    comparison: Comparison, limits: Replay
) -> Iterator[tuple[float, float | None, Interval | None]]:
    """Yield (percent, limit, ratio) of p50 and p99; a ratio of None: too few answers."""
    for percent, most in ((50.0, limits.p50_ratio), (99.0, limits.p99_ratio)):
        yield percent, most, comparison.latency.ratio(percent)


def _errors(comparison: Comparison, limits: Replay) -> Iterator[str]:
    errors, requests = comparison.new_errors, comparison.requests
    if errors > limits.error_share * requests:
        kinds = [
            f"{count:,} x {kind}" for kind, count in comparison.errors.most_common(_MOST_ERRORS)
        ]
        yield (
            f"{errors:,} of {requests:,} requests failed ({percent(errors / requests)}; at most "
            f"{percent(limits.error_share)}): {', '.join(kinds)}."
        )


def _rows(comparison: Comparison, limits: Replay) -> Iterator[str]:
    most = limits.differing_rows_share
    above = [one for one in comparison.outputs.values() if one.share > most]
    for output in sorted(above, key=lambda one: -one.share):
        yield f"Output {output.name}: {difference_of(output, f'; at most {percent(most)}')}."
    if not above and comparison.differing_rows > most * comparison.rows:
        yield (
            f"{comparison.differing_rows:,} of {comparison.rows:,} rows differ in some output (at most "
            f"{percent(most)})."
        )


def _largest(comparison: Comparison, limits: Replay) -> Iterator[str]:
    most = limits.largest_difference
    for output in comparison.outputs.values():
        if most is not None and output.relative.largest > most:
            yield (
                f"Output {output.name}: the largest difference is {short(output.relative.largest)} of "
                f"the row's largest number (at most {most:g})."
            )


def _latency(comparison: Comparison, limits: Replay) -> Iterator[str]:
    for percent_, most, ratio in latency_ratios(comparison, limits):
        if most is not None and ratio is not None and ratio.low > most:
            yield (
                f"p{percent_:g} latency is {ratio.value:.2f} times the other target's, with 95 % confidence "
                f"{ratio.low:.2f} to {ratio.high:.2f} (at most {most:g})."
            )


def difference_of(output: OutputStatistics, limit: str = "") -> str:
    """Describe an output's differences as the end of a sentence. `limit`: beside the share."""
    share = f"{percent(output.share)}{limit}"
    parts = [f"{output.differing:,} of {output.rows:,} rows differ ({share})"]
    if (other := output.swapped_with) is not None:
        parts.append(f"its values came as {other}")
    if output.added and not output.rows:
        parts = [f"it was added to {answers(output.added)}"]
    for problem, count in output.problems.most_common(_MOST_ERRORS):
        word = "it is missing" if problem == MISSING else problem
        parts.append(f"{word} in {answers(count)}")
    if output.nan:
        parts.append(f"NaN on one side in {rows(output.nan)}")
    if output.infinite:
        parts.append(f"infinity on one side in {rows(output.infinite)}")
    if output.labels:
        parts.append(f"{output.labels:,} labels changed")
    if output.shift is not None:
        places = f"{abs(output.shift)} place{'s' if abs(output.shift) > 1 else ''}"
        parts.append(
            f"most labels that changed moved by {output.shift:+d}"
            if output.labels
            else f"the scores moved by {places}"
        )
    for k, count in sorted(output.top.items()):
        if count:
            parts.append(f"the top {k} changed in {rows(count)}")
    if output.tolerance is not None and output.relative.largest:
        median, p99 = (output.relative.percentile(percent_) for percent_ in (50, 99))
        parts.append(
            f"differences relative to the row's largest number: median {short(median)}, p99 {short(p99)}, "
            f"largest {short(output.relative.largest)}, tolerance {short(output.tolerance)}"
        )
    return "; ".join(parts)


def rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def answers(count: int) -> str:
    return f"{count:,} answer{'' if count == 1 else 's'}"


def short(value: float) -> str:
    """A relative difference in two digits, as 0.0061 or 4.2e-8."""
    return f"{value:.2g}".replace("e-0", "e-")


def percent(share: float) -> str:
    """A share as a person writes it: "12.3 %", "0.01 %", "0 %"."""
    return f"{readable(float(f'{100 * share:.3g}'))} %"
