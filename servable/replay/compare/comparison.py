"""Pairs of answers in, differences by output out: a stream, in constant memory.

    comparison = Comparison(replay)
    for pair in pairs:
        comparison.add(pair)
    comparison.finish()

The first answers are held back until the mean magnitude of every output is known, with which small numbers
are judged (infra/parameters/replay.py).
"""

import dataclasses
import heapq
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from infra.parameters.replay import Replay
from servable.answer_differences import (
    MISSING,
    ArrayDifference,
    compared,
    everywhere,
    magnitude,
    tolerance_of,
)
from servable.answer_outputs import UNKNOWN, AnswerOutputs, outputs_of
from servable.captured import RecordedAnswer
from servable.replay.answers import AnswerPair
from servable.replay.compare.latency_ratio import LatencyRatio
from servable.replay.compare.output_statistics import OutputStatistics
from servable_local.capture_record import media_type
from servable_local.terminal import escaped_name
from servable_tensors import UNNAMED_OUTPUT
from servable_tensors.tensors import Array

# Answers that are held back; enough for a mean, and little memory.
_HELD_PAIRS, _HELD_BYTES = 256, 8 << 20
# Outputs of an answer that are looked for under another name, each with each.
_MOST_SWAPPED = 32
_MOST_EXAMPLES = 20
# Outputs with statistics of their own, 30 kB each: JSON whose keys are data has thousands.
MOST_OUTPUTS, OTHER_OUTPUTS, _MOST_NAME_CHARACTERS = 256, "other outputs", 200
_ARRAY_BYTES = 256  # of one number, in memory
WORST = 20
"""Requests that differ most, which are kept."""
_WORST_BYTES = 32 << 20


@dataclass(frozen=True, kw_only=True)
class WorstRequest:
    """One of the requests whose answers differ most."""

    pair: AnswerPair
    severity: float
    """The largest difference, in tolerances; infinite for errors, labels, NaN and other forms."""
    reasons: tuple[str, ...]
    """Names of the first outputs and how they differ, without values."""


@dataclass(frozen=True, slots=True)
class _Held:
    pair: AnswerPair
    media_types: tuple[str, str]
    expected: AnswerOutputs
    answered: AnswerOutputs
    second: AnswerOutputs | None
    """Outputs of the second known-good target."""


class Comparison:
    """The differences between the answers of two sides; noise, if a second known-good target was asked."""

    def __init__(
        self, settings: Replay, *, only_output: str = UNNAMED_OUTPUT, shown: Collection[str] = ()
    ) -> None:
        """`only_output`: the name of an output that answers do not name, because the model has no other;
        `shown`: the only names that may be printed, because no data are in them; empty: all."""
        self._settings, self._only_output, self._shown = settings, only_output, shown
        self.outputs: dict[str, OutputStatistics] = {}
        self.requests = 0
        self.compared = 0
        """Requests with an answer on both sides."""
        self.differing_requests = 0
        self.rows = 0
        self.differing_rows = 0
        self.without_expected = 0
        """Requests whose answer was not captured; only their errors count."""
        self.errors: Counter[str] = Counter()
        """Requests that failed although the expected answer is none of an error, by kind."""
        self.mended = 0
        """Requests that were answered although the expected answer is one of an error."""
        self.failed_on_both = 0
        self.ignored = [name for name, output in settings.outputs.items() if output.ignored]
        """Outputs that [replay.outputs] leaves out."""
        self.allowed: Counter[str] = Counter()
        """Outputs that were not expected and may be there, by [replay] added_outputs -> answers."""
        self.noisy = 0
        """Answers that two known-good targets gave too."""
        self.second_errors = 0
        """Requests that the second known-good target failed although the first answered."""
        self.content_types: Counter[tuple[str, str]] = Counter()
        """Expected and answered content type, where they differ -> answers."""
        self.latency = LatencyRatio()
        self._scales: dict[str, float] | None = None
        self._held: list[_Held] = []
        self._held_bytes = 0
        self._worst: list[tuple[float, int, WorstRequest]] = []
        self._worst_bytes = self._kept = 0

    @property
    def new_errors(self) -> int:
        return self.errors.total()

    @property
    def worst(self) -> list[WorstRequest]:
        """The requests that differ most, the worst first."""
        return [request for _, _, request in sorted(self._worst, reverse=True)]

    def add(self, pair: AnswerPair) -> None:
        self.requests += 1
        expected, answered = pair.expected, pair.answered
        if expected is None:
            self.without_expected += 1
        if expected is not None and expected.failed:
            self.mended += not answered.failed
            self.failed_on_both += answered.failed
            return
        if answered.failed:
            kind = answered.error or f"status {answered.status}"
            self.errors[kind if len(self.errors) < _MOST_EXAMPLES else "other errors"] += 1
            self._keep(pair, math.inf, (kind,))
            return
        if expected is None:
            return
        if expected.latency_ms is not None and answered.latency_ms is not None:
            self.latency.add(expected.latency_ms, answered.latency_ms)
        media_types = (media_type(expected.content_type), media_type(answered.content_type))
        first, judged = self._read(expected, answered)
        second = None
        if pair.second is not None and pair.second.failed:
            self.second_errors += 1
        elif pair.second is not None:
            _, second = self._read(expected, pair.second, first)
        held = _Held(pair, media_types, first, judged, second)
        if self._scales is not None:
            self._compare(held)
            return
        self._held.append(held)
        sides = (held.expected, held.answered, *([second] if second else []))
        arrays = sum(len(side.arrays) for side in sides)
        self._held_bytes += _size(pair) + _ARRAY_BYTES * arrays
        if len(self._held) >= _HELD_PAIRS or self._held_bytes >= _HELD_BYTES:
            self.finish()

    def finish(self) -> None:
        """Compare what is held back. Idempotent."""
        if self._scales is None:
            self._scales = _scales(self._held)
        for held in self._held:
            self._compare(held)
        self._held.clear()

    def _compare(self, held: _Held) -> None:
        expected, answered = held.expected, held.answered
        rows = expected.rows
        differences = dict(self._differences(expected, answered))
        differing = np.zeros(rows, bool)
        for name, difference in differences.items():
            differing |= difference.differing
            self._of(name).add(difference, len(difference.differing))
        self._renamed(expected, answered, differences)
        if held.second is not None:
            self._add_noise(held, held.second, differences)
        unequal = {name: one for name, one in differences.items() if not one.equal}
        reasons = [f"{self._of(name).name}: {_reason(one)}" for name, one in unequal.items()]
        for name in [name for name in answered.arrays if name not in expected.arrays]:
            if self._settings.added_outputs:
                hidden = self._shown and name not in self._shown
                self.allowed["outputs" if hidden else self._key(name, self.allowed)] += 1
                continue
            self._of(name).added += 1
            self._of(name).requests += 1
            reasons.append(f"{self._of(name).name}: added")
            differing[:] = True
        before, after = held.media_types
        if before != after and not {before, after} & set(UNKNOWN):
            kinds = (before, after)
            if len(self.content_types) >= _MOST_EXAMPLES and kinds not in self.content_types:
                kinds = ("other content types",) * 2
            self.content_types[kinds] += 1
            reasons.append(f"content type {before} became {after}")
            differing[:] = True
        self.compared += 1
        self.rows += rows
        self.differing_rows += int(differing.sum())
        if differing.any():
            self.differing_requests += 1
            severities = [difference.severity for difference in differences.values()]
            known = math.inf if len(reasons) > len(unequal) else 0.0
            self._keep(held.pair, max([known, *severities]), tuple(reasons[:_MOST_EXAMPLES]))

    def _add_noise(
        self, held: _Held, second: AnswerOutputs, differences: Mapping[str, ArrayDifference]
    ) -> None:
        """Count by output how far the judged target and the second known-good one are off."""
        self.noisy += 1
        known = dict(self._differences(held.expected, second))
        for name, difference in differences.items():
            self._of(name).noise.add(difference.severity, known[name].severity)
        for name in {**held.answered.arrays, **second.arrays}:
            if name not in differences and not self._settings.added_outputs:
                sides = (name in side.arrays for side in (held.answered, second))
                self._of(name).noise.add(*(math.inf if there else 0.0 for there in sides))

    def _differences(
        self, expected: AnswerOutputs, answered: AnswerOutputs
    ) -> Iterator[tuple[str, ArrayDifference]]:
        for name, array in expected.arrays.items():
            other = answered.arrays.get(name)
            if other is None:
                yield name, everywhere(expected.rows_of(name), MISSING)
            else:
                yield name, self._difference(name, array, other, expected, answered)

    def _difference(
        self,
        name: str,
        array: Array,
        other: Array,
        expected: AnswerOutputs,
        answered: AnswerOutputs,
    ) -> ArrayDifference:
        typed = expected.typed and answered.typed
        # A whole number and a fraction beside each other, in text: compared as fractions.
        wider = other if other.dtype.kind == "f" and array.dtype.kind in "iu" else array
        tolerance = tolerance_of(
            wider,
            self._settings.by_type,
            self._settings.outputs.get(name),
            typed=typed,
            bfloat16=name in expected.bfloat16 & answered.bfloat16,
            scale=(self._scales or {}).get(name, 0.0),
        )
        rows = expected.rows_of(name)
        output = self._of(name)
        output.tolerance = None if tolerance is None else tolerance.relative
        output.columns.add(array, tolerance, rows)
        return compared(array, other, tolerance, rows=rows, typed=typed, tops=self._settings.top)

    def _renamed(
        self,
        expected: AnswerOutputs,
        answered: AnswerOutputs,
        differences: Mapping[str, ArrayDifference],
    ) -> None:
        """Look for the values of outputs that differ under other names."""
        wrong = [name for name, one in differences.items() if not one.equal][:_MOST_SWAPPED]
        added = [name for name in answered.arrays if name not in expected.arrays][:_MOST_SWAPPED]
        for name in wrong:
            for other in [*wrong, *added]:
                if other == name or other not in answered.arrays:
                    continue
                array, moved = expected.arrays[name], answered.arrays[other]
                if self._difference(name, array, moved, expected, answered).equal:
                    self._of(name).other_names[self._of(other).name] += 1
                    break

    def _read(
        self, expected: RecordedAnswer, answered: RecordedAnswer, known: AnswerOutputs | None = None
    ) -> tuple[AnswerOutputs, AnswerOutputs]:
        """`known`: the outputs of the expected answer, if it was read before."""
        before = known or self._named(outputs_of(expected.body, expected.content_type))
        if (expected.body, expected.content_type) == (answered.body, answered.content_type):
            return before, before
        return before, self._named(outputs_of(answered.body, answered.content_type))

    def _named(self, outputs: AnswerOutputs) -> AnswerOutputs:
        """The outputs that are compared, the only one under its name."""
        arrays = dict(outputs.arrays)
        if UNNAMED_OUTPUT in arrays and self._only_output not in arrays:
            arrays = {self._only_output: arrays.pop(UNNAMED_OUTPUT), **arrays}
        for name in self.ignored:
            arrays.pop(name, None)
        return dataclasses.replace(outputs, arrays=arrays)

    def _of(self, name: str) -> OutputStatistics:
        key = self._key(name, self.outputs)
        if key not in self.outputs:
            hidden = self._shown and name not in self._shown
            shown = f"output {len(self.outputs) + 1}" if hidden else key
            self.outputs[key] = OutputStatistics(name=shown)
        return self.outputs[key]

    def _key(self, name: str, kept: Collection[str]) -> str:
        """Return the name under which an output is counted: names that are data share one."""
        key = escaped_name(name)[:_MOST_NAME_CHARACTERS]
        return OTHER_OUTPUTS if key not in kept and len(kept) >= MOST_OUTPUTS else key

    def _keep(self, pair: AnswerPair, severity: float, reasons: tuple[str, ...]) -> None:
        self._kept -= 1  # of equal ones the earlier stays
        worst = WorstRequest(pair=pair, severity=severity, reasons=reasons)
        entry = severity, self._kept, worst
        if len(self._worst) >= WORST and entry[:2] <= self._worst[0][:2]:
            return
        heapq.heappush(self._worst, entry)
        self._worst_bytes += _size(pair)
        while len(self._worst) > WORST or (
            self._worst_bytes > _WORST_BYTES and len(self._worst) > 1
        ):
            self._worst_bytes -= _size(heapq.heappop(self._worst)[2].pair)


def _size(pair: AnswerPair) -> int:
    several = (pair.expected, pair.answered, pair.second)
    return len(pair.request.body) + sum(len(answer.body) for answer in several if answer)


def _scales(held: list[_Held]) -> dict[str, float]:
    """Mean magnitude of each output."""
    sums: dict[str, tuple[float, int]] = {}
    for held_pair in held:
        for name, array in held_pair.expected.arrays.items():
            total, count = magnitude(array)
            before = sums.get(name, (0.0, 0))
            sums[name] = before[0] + total, before[1] + count
    return {name: total / count if count else 0.0 for name, (total, count) in sums.items()}


def _reason(difference: ArrayDifference) -> str:
    """Describe the difference of an output without its values."""
    if difference.problem:
        return difference.problem
    parts = []
    if difference.nan_rows:
        parts.append("NaN on one side")
    if difference.infinite_rows:
        parts.append("infinity on one side")
    if difference.labels:
        parts.append(f"{difference.labels:,} labels changed")
    if difference.top.get(1):
        parts.append("the highest score is another")
    if difference.relative.size:
        parts.append(f"off by {difference.relative.max():.2g} of the row's largest number")
    return ", ".join(parts)
