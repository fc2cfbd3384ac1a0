"""The gate of [replay]: what a comparison saw against the limits, and whether it saw enough to be told."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from infra.parameters.replay import Replay
from servable.answer_differences import MISSING
from servable.precision import Interval, readable
from servable.replay.compare.comparison import Comparison
from servable.replay.compare.output_statistics import OutputStatistics
from servable.replay.skipped import ReadLines

_MOST_ERRORS = 3  # kinds that a sentence names
_MOST_OUTPUTS = 20  # sentences about outputs: JSON whose keys are data has hundreds
# Rows of one request may differ together: fewer requests say nothing of what a third of them would show.
_LEAST_REQUESTS = 10


@dataclass(frozen=True, kw_only=True)
class ReplayVerdict:
    """The gate's verdict: not met if a limit is exceeded, told only if enough was compared."""

    exceeded: tuple[str, ...] = ()
    """A sentence for each limit that is exceeded."""
    missing: tuple[str, ...] = ()
    """A sentence for each thing that is missing to tell."""

    @property
    def held(self) -> Literal["met", "NOT met", "cannot be told"]:
        return "NOT met" if self.exceeded else "cannot be told" if self.missing else "met"

    @property
    def exit_code(self) -> int:
        return 1 if self.exceeded else 3 if self.missing else 0

    @property
    def lines(self) -> list[str]:
        return [*self.exceeded, *self.missing]

    def as_object(self) -> dict[str, Any]:
        """Return the verdict as an object for JSON."""
        return {"held": self.held == "met", "verdict": self.held, "lines": self.lines}


def judged(
    comparison: Comparison, limits: Replay, lines: ReadLines, *, side_by_side: bool
) -> ReplayVerdict:
    """Hold a comparison to the limits.

    `side_by_side`: the expected answers come from a target that was asked in turns with the other, so that
    latencies can be compared.
    """
    return ReplayVerdict(
        exceeded=tuple(exceeded(comparison, limits, side_by_side=side_by_side)),
        missing=tuple(_missing(comparison, limits, lines)),
    )


def exceeded(comparison: Comparison, limits: Replay, *, side_by_side: bool) -> list[str]:
    """Return a sentence for each limit that is exceeded."""
    outputs = [*_rows(comparison, limits), *_largest(comparison, limits)]
    if len(outputs) > _MOST_OUTPUTS:
        outputs[_MOST_OUTPUTS:] = [f"{len(outputs) - _MOST_OUTPUTS:,} more limits are exceeded."]
    return [
        *_errors(comparison, limits),
        *(
            f"{answers(count)} came as {after} instead of {before}."
            for (before, after), count in comparison.content_types.most_common(_MOST_ERRORS)
        ),
        *outputs,
        *(_latency(comparison, limits) if side_by_side else ()),
    ]


def least_rows(limits: Replay) -> int:
    """Return the number of rows of which none differs, with 95 % confidence, only if fewer than
    `detectable_share` do: the rule of three."""
    return math.ceil(round(3 / limits.detectable_share, 6))


def most_share(differing: int, rows: int) -> float:
    """Return the share of rows that differ at most, with 95 % confidence: 3 / rows where none was seen to.

    The 95 % limit of a Poisson count, within 1 %.
    Source: Wilson and Hilferty, The Distribution of Chi-Square, PNAS 17 (1931)
    """
    if not rows:
        return 1.0
    more = differing + 1
    limit = more * (1 - 1 / (9 * more) + 1.645 / (3 * math.sqrt(more))) ** 3 if differing else 3.0
    return min(1.0, limit / rows)


def shown_line(comparison: Comparison) -> str:
    """Say what so many rows show of all rows."""
    rows, differing = comparison.rows, comparison.differing_rows
    most = most_share(differing, rows)
    return (
        f"{differing:,} of {rows:,} rows show that fewer than {percent(float(f'{most:.2g}'))} of all rows "
        "differ, with 95 % confidence"
    )


def _missing(comparison: Comparison, limits: Replay, lines: ReadLines) -> Iterator[str]:
    if not comparison.requests:
        yield "No request was replayed, so nothing is known of the answers."
        return
    if not comparison.compared and not comparison.errors:
        yield (
            "No answer was compared: none was captured, or both sides failed. Capture Output too, or give "
            "--against."
        )
        return
    if comparison.ignored and not comparison.outputs and not comparison.errors:
        yield "No output was compared: [replay.outputs] ignores all that the answers hold."
        return
    count, least = comparison.rows, least_rows(limits)
    if count < least:
        less = "" if count <= 3 else _rounded_up(3 / count)
        few = f", or ask for less: [replay] detectable_share = {less}" if less else ""
        yield (
            f"{rows(count)} of {answers(comparison.compared)} cannot show whether "
            f"{percent(limits.detectable_share)} of all rows differ, which takes {least:,} rows: replay more"
            f"{few}."
        )
    elif comparison.compared < _LEAST_REQUESTS:
        yield (
            f"{rows(count)} came in {answers(comparison.compared)}, and rows of one answer may differ "
            f"together: replay at least {_LEAST_REQUESTS} requests."
        )
    yield from _uncompared(comparison, limits, lines)
    yield from _unsure(comparison, limits)


def _rounded_up(share: float) -> str:
    """Return a share of two digits that is not below this one."""
    unit = 10.0 ** (math.floor(math.log10(share)) - 1)
    return f"{math.ceil(share / unit - 1e-9) * unit:.2g}"


def _uncompared(comparison: Comparison, limits: Replay, lines: ReadLines) -> Iterator[str]:
    """Yield what was captured and not compared, above its limit."""
    for file in lines.unread_files[:_MOST_ERRORS]:
        yield f"{file} was not read, so what it holds is not known."
    for count, of, what in (
        (lines.skipped, lines.read, "captured lines were skipped"),
        (comparison.without_expected, comparison.requests, "requests have no captured answer"),
    ):
        if count > limits.skipped_share * of:
            yield (
                f"{count:,} of {of:,} {what} ({percent(count / of)}; [replay] skipped_share allows "
                f"{percent(limits.skipped_share)}), and what is not compared may be what differs."
            )


def _unsure(comparison: Comparison, limits: Replay) -> Iterator[str]:
    """Yield what lies so near to a limit, or to the noise, that more rows have to tell."""
    most, share = (
        limits.differing_rows_share,
        most_share(comparison.differing_rows, comparison.rows),
    )
    if most and not comparison.noisy and share > most + limits.detectable_share:
        yield (
            f"{comparison.differing_rows:,} of {comparison.rows:,} rows differ, so up to {percent(share)} of "
            f"all may (95 % confidence); {percent(most)} may, and the gate has to find "
            f"{percent(limits.detectable_share)} more: replay more."
        )
    for output in _above(comparison, limits) if comparison.noisy else ():
        noise = output.noise
        if not noise.exceeded and not noise.disagreeing:
            yield (
                f"Output {output.name} differs in {answers(output.differing_requests or output.added)}, and "
                f"between the two known-good targets in none of {noise.answers:,}: too few to tell from "
                f"noise; {noise.least_answers} would."
            )
        elif noise.least_answers > noise.answers:
            yield (
                f"Output {output.name}: {answers(noise.answers)} cannot show a difference beside the noise: "
                f"replay at least {noise.least_answers:,}."
            )


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


def _above(comparison: Comparison, limits: Replay) -> list[OutputStatistics]:
    """Return the outputs above a limit, the one with the largest share first."""
    most, largest = limits.differing_rows_share, limits.largest_difference
    above = [
        output
        for output in comparison.outputs.values()
        if output.share > most or (largest is not None and output.relative.largest > largest)
    ]
    return sorted(above, key=lambda output: -output.share)


def _forgiven(comparison: Comparison, output: OutputStatistics) -> bool:
    """Whether the output differs no more than two known-good targets differ from each other."""
    return bool(comparison.noisy) and not output.noise.exceeded


def _rows(comparison: Comparison, limits: Replay) -> Iterator[str]:
    most = limits.differing_rows_share
    above = [output for output in _above(comparison, limits) if output.share > most]
    for output in above:
        if not _forgiven(comparison, output):
            yield f"Output {output.name}: {difference_of(output, f'; at most {percent(most)}')}."
    if not above and not comparison.noisy and comparison.differing_rows > most * comparison.rows:
        yield (
            f"{comparison.differing_rows:,} of {comparison.rows:,} rows differ in some output (at most "
            f"{percent(most)})."
        )


def _largest(comparison: Comparison, limits: Replay) -> Iterator[str]:
    most = limits.largest_difference
    for output in comparison.outputs.values():
        if most is None or output.relative.largest <= most:
            continue
        if not _forgiven(comparison, output):
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
    noise = output.noise
    parts = [f"{output.differing:,} of {output.rows:,} rows differ ({share})"]
    if (other := output.swapped_with) is not None:
        parts.append(f"its values came as {other}")
    if output.added and not output.rows:
        parts = [f"it was added to {answers(output.added)}"]
    for problem, count in output.problems.most_common(_MOST_ERRORS):
        word = "it is missing" if problem == MISSING else problem
        parts.append(f"{word} in {answers(count)}")
    if noise.answers and (output.differing or noise.disagreeing):
        parts.append(
            f"the two known-good targets differ in {noise.disagreeing:,} of {answers(noise.answers)}, and an "
            f"excess of fewer than {noise.least_answers:,} is not told from that"
        )
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
