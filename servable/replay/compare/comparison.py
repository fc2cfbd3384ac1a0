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
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from infra.parameters.replay import Replay
from servable.captured import RecordedAnswer
from servable.replay.answers import AnswerPair
from servable.replay.compare.decoding import UNKNOWN, AnswerOutputs, outputs_of
from servable.replay.compare.difference import (
    MISSING,
    ArrayDifference,
    compared,
    everywhere,
    magnitude,
    tolerance_of,
)
from servable.replay.compare.latency_ratio import LatencyRatio
from servable.replay.compare.sketch import Sketch
from servable_local.capture_record import media_type
from servable_local.terminal import escaped_name
from servable_tensors import UNNAMED_OUTPUT
from servable_tensors.tensors import Array

_Counted = TypeVar("_Counted")
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


@dataclass(kw_only=True)
class OutputStatistics:
    """Differences of one output so far. Counts are of rows where nothing else is stated."""

    name: str
    rows: int = 0
    differing: int = 0
    requests: int = 0
    """Answers that had the output on either side."""
    differing_requests: int = 0
    absolute: Sketch = field(default_factory=Sketch)
    relative: Sketch = field(default_factory=Sketch)
    nan: int = 0
    infinite: int = 0
    added: int = 0
    """Answers with the output although none was expected."""
    problems: Counter[str] = field(default_factory=Counter)
    """Reason against a comparison by value, as MISSING or a changed type or shape -> answers."""
    labels: int = 0
    """Changed labels."""
    examples: Counter[tuple[str, str]] = field(default_factory=Counter)
    top: Counter[int] = field(default_factory=Counter)
    """k -> rows whose k highest scores are others."""
    shifts: Counter[int] = field(default_factory=Counter)
    """Number by which most labels of an answer, or its scores' places, moved -> answers."""
    other_names: Counter[str] = field(default_factory=Counter)
    """Name under which the expected values came -> answers."""
    tolerance: float | None = None
    """Relative tolerance; None: compared exactly."""

    @property
    def share(self) -> float:
        return self.differing / self.rows if self.rows else float(bool(self.added))

    @property
    def swapped_with(self) -> str | None:
        """The name under which most of the expected values came."""
        return _most(self.other_names, self.differing_requests)

    @property
    def shift(self) -> int | None:
        """The number by which labels, or places of scores, moved in most answers that differ."""
        return _most(self.shifts, self.differing_requests)

    def add(self, difference: ArrayDifference, rows: int) -> None:
        self.rows += rows
        self.requests += 1
        self.absolute.add(difference.absolute)
        self.relative.add(difference.relative)
        if difference.equal:
            return
        self.differing += int(difference.differing.sum())
        self.differing_requests += 1
        self.nan += difference.nan_rows
        self.infinite += difference.infinite_rows
        self.labels += difference.labels
        if difference.problem:
            # Shapes may be endlessly many.
            known = len(self.problems) < _MOST_EXAMPLES or difference.problem in self.problems
            self.problems[difference.problem if known else "other shapes"] += 1
        self.top.update(difference.top)
        if difference.shift is not None and (
            len(self.shifts) < 100 or difference.shift in self.shifts
        ):
            self.shifts[difference.shift] += 1
        for example in difference.examples:
            if len(self.examples) < _MOST_EXAMPLES or example in self.examples:
                self.examples[example] += 1


def _most(counts: Counter[_Counted], of: int) -> _Counted | None:
    """Return the value that at least three quarters of `of` share; None: there is none."""
    return next((value for value, count in counts.most_common(1) if count >= 0.75 * of), None)


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


class Comparison:
    """The differences between the answers of two sides."""

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
        held = _Held(pair, media_types, *self._read(expected, answered))
        if self._scales is not None:
            self._compare(held)
            return
        self._held.append(held)
        arrays = len(held.expected.arrays) + len(held.answered.arrays)
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
        unequal = {name: one for name, one in differences.items() if not one.equal}
        reasons = [f"{self._of(name).name}: {_reason(one)}" for name, one in unequal.items()]
        for name in [name for name in answered.arrays if name not in expected.arrays]:
            self._of(name).added += 1
            self._of(name).requests += 1
            reasons.append(f"{self._of(name).name}: added")
            differing[:] = True
        before, after = held.media_types
        if before != after and not {before, after} & set(UNKNOWN):
            self.content_types[before, after] += 1
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
        self._of(name).tolerance = None if tolerance is None else tolerance.relative
        return compared(
            array,
            other,
            tolerance,
            rows=expected.rows_of(name),
            typed=typed,
            tops=self._settings.top,
        )

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
        self, expected: RecordedAnswer, answered: RecordedAnswer
    ) -> tuple[AnswerOutputs, AnswerOutputs]:
        before = self._named(outputs_of(expected.body, expected.content_type))
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
        key = escaped_name(name)[:_MOST_NAME_CHARACTERS]
        if key not in self.outputs and len(self.outputs) >= MOST_OUTPUTS:
            key = OTHER_OUTPUTS
        if key not in self.outputs:
            hidden = self._shown and name not in self._shown
            shown = f"output {len(self.outputs) + 1}" if hidden else key
            self.outputs[key] = OutputStatistics(name=shown)
        return self.outputs[key]

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
    expected = 0 if pair.expected is None else len(pair.expected.body)
    return len(pair.request.body) + expected + len(pair.answered.body)


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
