"""Compare pairs of responses as a stream, in constant memory, and count the differences by output.

    comparison = Comparison(replay)
    for pair in pairs:
        comparison.add(pair)
    comparison.finish()

The first responses are held back until the mean magnitude of every output is known, with which small numbers
are compared (infra/parameters/replay.py).
"""

import dataclasses
import heapq
import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from infra.parameters.replay import Replay
from servable.answers.differences import (
    MISSING,
    ArrayDifference,
    Tolerance,
    build_total_difference,
    compare_arrays,
    compute_references,
    reshape_by_row,
    select_tolerance,
    sum_magnitudes,
)
from servable.answers.outputs import UNKNOWN, AnswerOutputs, read_outputs
from servable.captured.lines import RecordedAnswer
from servable.console.terminal import escape_name
from servable.replay.answers import AnswerPair
from servable_tensors import UNNAMED_OUTPUT
from servable_tensors.records import parse_media_type
from servable_tensors.tensors import Array

# A row of more numbers is an embedding or an image, whose columns aren't checked one by one.
_MOST_COLUMNS = 4096
UNSEEN_CHANGE = 0.01
"""A column is named if a change by this share of its own largest number stays within the tolerance."""


class ColumnSizes:
    """The sizes of an output's columns: call `add` for each expected array.

    `unseen_columns` are the columns that are far below the scale of their rows. A change of their
    numbers isn't detected, since the tolerance is a share of the largest number of the row.
    """

    def __init__(self) -> None:
        self._largest: Array | None = None
        """Each column's largest share of the magnitude that it is compared with."""
        self._relative = 0.0

    @np.errstate(all="ignore")
    def add(self, array: Array, tolerance: Tolerance | None, rows: int) -> None:
        if array.dtype.kind != "f" or tolerance is None or tolerance.absolute is not None:
            return
        sizes = np.abs(reshape_by_row(array, rows).astype(np.float64))
        if not 2 <= sizes.shape[1] <= _MOST_COLUMNS:
            return
        sizes = np.where(np.isfinite(sizes), sizes, 0.0)
        shares = np.nan_to_num(sizes / compute_references(sizes, tolerance)).max(
            axis=0, initial=0.0
        )
        self._relative = tolerance.relative
        if self._largest is None:
            self._largest = shares
        elif len(self._largest) == len(shares):
            self._largest = np.maximum(self._largest, shares)
        else:  # answers of several lengths have no columns
            self._largest = shares[:0]

    @property
    def count(self) -> int:
        return 0 if self._largest is None else len(self._largest)

    @property
    def unseen_columns(self) -> list[int]:
        """Return the numbers of the columns whose changes aren't detected, counted from 1.

        Columns of zeros have no size, and aren't included.
        """
        if self._largest is None:
            return []
        small = (self._largest > 0) & (UNSEEN_CHANGE * self._largest < self._relative)
        return [int(number) + 1 for number in np.flatnonzero(small)]


# Responses that are held back; enough for a mean, and little memory.
_HELD_PAIRS, _HELD_BYTES = 256, 8 << 20
_ARRAY_BYTES = 256  # of one number, in memory
# Kinds of errors, content types, and shapes that are counted separately; there may be endlessly many.
_MOST_KINDS = 20
# Outputs that are counted separately: JSON whose keys are data has thousands.
MOST_OUTPUTS, OTHER_OUTPUTS, _MOST_NAME_CHARACTERS = 256, "other outputs", 200
WORST = 20
"""Requests that differ most, which are kept."""
_WORST_BYTES = 32 << 20


def count_kind(counts: Counter[Any], kind: object, other: object) -> None:
    """Count one of a kind, as `other` if there are already too many kinds."""
    counts[kind if kind in counts or len(counts) < _MOST_KINDS else other] += 1


@dataclass(kw_only=True)
class OutputStatistics:
    """The differences of one output so far, under the names that `--json` has."""

    name: str
    rows: int = 0
    differing_rows: int = 0
    relative_tolerance: float | None = None
    """None: compared exactly."""
    largest_difference: float = 0.0
    """Of finite numbers, relative to the magnitude that each is compared with."""
    nan_rows: int = 0
    infinite_rows: int = 0
    changed_labels: int = 0
    changed_top: Counter[int] = field(default_factory=Counter)
    """k -> rows whose k highest scores are different ones."""
    problems: Counter[str] = field(default_factory=Counter)
    """Why values could not be compared, as MISSING or a changed type or shape -> responses."""
    added: int = 0
    """Responses with the output although it was not expected."""
    columns: ColumnSizes = field(default_factory=ColumnSizes)

    @property
    def share(self) -> float:
        return self.differing_rows / self.rows if self.rows else float(bool(self.added))

    def add(self, difference: ArrayDifference) -> None:
        self.rows += len(difference.row_changes)
        self.largest_difference = max(self.largest_difference, difference.largest)
        self.differing_rows += int(difference.row_changes.sum())
        self.nan_rows += difference.nan_rows
        self.infinite_rows += difference.infinite_rows
        self.changed_labels += difference.labels
        self.changed_top.update(difference.top)
        if difference.problem:
            count_kind(self.problems, difference.problem, "other shapes")


class WorstRequest(NamedTuple):
    """One of the requests whose responses differ most, sorted by severity."""

    severity: float
    """The largest difference, in tolerances; infinite for errors, labels, NaN, and changed formats."""
    order: int
    """Negative and falling: of equally severe requests, the earlier is the greater."""
    pair: AnswerPair
    reasons: tuple[str, ...]
    """Names of the first outputs and how they differ, without values."""


_Held = tuple[AnswerPair, AnswerOutputs, AnswerOutputs]
"""A pair with the outputs of its expected and its actual response."""


class Comparison:
    """The differences between the responses of two sides."""

    def __init__(self, settings: Replay, *, only_output: str = UNNAMED_OUTPUT) -> None:
        """Prepare a comparison with the limits of `settings`.

        `only_output`: the name of an output that responses don't name, because the model has only
        one.
        """
        self._settings, self._only_output = settings, only_output
        self.outputs: dict[str, OutputStatistics] = {}
        self.requests = 0
        self.compared = 0
        """Requests with a response on both sides."""
        self.differing_requests = 0
        self.rows = 0
        self.differing_rows = 0
        self.without_expected = 0
        """Requests whose response was not captured; only their errors count."""
        self.errors: Counter[str] = Counter()
        """Requests that failed although the expected response isn't an error, by kind."""
        self.answered_now = 0
        """Requests that succeeded although the expected response is an error."""
        self.failed_on_both = 0
        self.ignored = [name for name, output in settings.outputs.items() if output.ignored]
        """Outputs that [replay.outputs] leaves out."""
        self.allowed: Counter[str] = Counter()
        """Unexpected outputs that [replay] added_outputs allows -> responses."""
        self.content_types: Counter[tuple[str, str]] = Counter()
        """Expected and received content type, where they differ -> responses."""
        self._scales: dict[str, float] | None = None
        self._held: list[_Held] = []
        self._held_bytes = 0
        self._worst: list[WorstRequest] = []
        self._worst_bytes, self._order = 0, itertools.count(0, -1)

    @property
    def new_errors(self) -> int:
        return self.errors.total()

    @property
    def worst_requests(self) -> list[WorstRequest]:
        """Return the requests that differ most, the worst first."""
        return sorted(self._worst, reverse=True)

    def add(self, pair: AnswerPair) -> None:
        self.requests += 1
        expected, answered = pair.expected_response, pair.answered
        if expected is None:
            self.without_expected += 1
        if expected is not None and expected.has_failed:
            self.answered_now += not answered.has_failed
            self.failed_on_both += answered.has_failed
            return
        if answered.has_failed:
            kind = answered.error or f"status {answered.status}"
            count_kind(self.errors, kind, "other errors")
            self._keep_if_worst(pair, math.inf, (kind,))
            return
        if expected is None:
            return
        before = after = self._read_outputs(expected)
        if (expected.body, expected.content_type) != (answered.body, answered.content_type):
            after = self._read_outputs(answered)
        if self._scales is not None:
            self._compare_pair(pair, before, after)
            return
        self._held.append((pair, before, after))
        arrays = len(before.arrays) + len(after.arrays)
        self._held_bytes += _count_bytes(pair) + _ARRAY_BYTES * arrays
        if len(self._held) >= _HELD_PAIRS or self._held_bytes >= _HELD_BYTES:
            self.finish()

    def finish(self) -> None:
        """Compare the responses that are held back. Further calls have no effect."""
        if self._scales is None:
            self._scales = _compute_scales(self._held)
        for held in self._held:
            self._compare_pair(*held)
        self._held.clear()

    def _compare_pair(
        self, pair: AnswerPair, expected: AnswerOutputs, answered: AnswerOutputs
    ) -> None:
        differing = np.zeros(expected.rows, bool)
        reasons, severity = [], 0.0
        for output, difference in self._iterate_differences(expected, answered):
            output.add(difference)
            differing |= difference.row_changes
            if not difference.is_equal:
                reasons.append(f"{output.name}: {_explain(difference)}")
            severity = max(severity, difference.severity)
        others = [*self._count_added(expected, answered), *self._count_content_type(pair)]
        if others:
            differing[:] = True
            severity = math.inf
        self.compared += 1
        self.rows += expected.rows
        self.differing_rows += int(differing.sum())
        if differing.any():
            self.differing_requests += 1
            self._keep_if_worst(pair, severity, tuple([*reasons, *others][:_MOST_KINDS]))

    def _count_added(self, expected: AnswerOutputs, answered: AnswerOutputs) -> Iterator[str]:
        """Count the unexpected outputs, and yield a reason for each that isn't allowed."""
        for name in answered.arrays:
            if name in expected.arrays:
                continue
            if self._settings.added_outputs:
                self.allowed[_limit_name(name, self.allowed)] += 1
                continue
            output = self._find_or_add_output(name)
            output.added += 1
            yield f"{output.name}: added"

    def _count_content_type(self, pair: AnswerPair) -> Iterator[str]:
        """Count a changed content type, and yield it as a reason."""
        assert pair.expected_response is not None  # only such pairs are compared
        before, after = (
            parse_media_type(one.content_type) for one in (pair.expected_response, pair.answered)
        )
        if before != after and not {before, after} & set(UNKNOWN):
            count_kind(self.content_types, (before, after), ("other content types",) * 2)
            yield f"content type {before} became {after}"

    def _iterate_differences(
        self, expected: AnswerOutputs, answered: AnswerOutputs
    ) -> Iterator[tuple[OutputStatistics, ArrayDifference]]:
        typed = expected.typed and answered.typed
        for name, array in expected.arrays.items():
            rows = expected.count_rows(name)
            output = self._find_or_add_output(name)
            other = answered.arrays.get(name)
            if other is None:
                yield output, build_total_difference(rows, MISSING)
                continue
            # Text writes 1.0 as 1: a whole number and a fraction are compared as fractions.
            wider = other if other.dtype.kind == "f" and array.dtype.kind in "iu" else array
            tolerance = select_tolerance(
                wider,
                self._settings.by_type,
                self._settings.outputs.get(name),
                typed=typed,
                bfloat16=name in expected.bfloat16 & answered.bfloat16,
                scale=(self._scales or {}).get(name, 0.0),
            )
            output.relative_tolerance = None if tolerance is None else tolerance.relative
            output.columns.add(array, tolerance, rows)
            tops = self._settings.top
            yield output, compare_arrays(array, other, tolerance, rows=rows, typed=typed, tops=tops)

    def _read_outputs(self, answer: RecordedAnswer) -> AnswerOutputs:
        """Return the outputs to compare, without ignored ones.

        An unnamed single output gets the name `only_output`.
        """
        outputs = read_outputs(answer.body, answer.content_type)
        arrays = dict(outputs.arrays)
        if UNNAMED_OUTPUT in arrays and self._only_output not in arrays:
            arrays = {self._only_output: arrays.pop(UNNAMED_OUTPUT), **arrays}
        for name in self.ignored:
            arrays.pop(name, None)
        return dataclasses.replace(outputs, arrays=arrays)

    def _find_or_add_output(self, name: str) -> OutputStatistics:
        key = _limit_name(name, self.outputs)
        if key not in self.outputs:
            self.outputs[key] = OutputStatistics(name=key)
        return self.outputs[key]

    def _keep_if_worst(self, pair: AnswerPair, severity: float, reasons: tuple[str, ...]) -> None:
        worst = WorstRequest(severity, next(self._order), pair, reasons)
        if len(self._worst) >= WORST and worst <= self._worst[0]:
            return
        heapq.heappush(self._worst, worst)
        self._worst_bytes += _count_bytes(pair)
        while len(self._worst) > WORST or (
            self._worst_bytes > _WORST_BYTES and len(self._worst) > 1
        ):
            self._worst_bytes -= _count_bytes(heapq.heappop(self._worst).pair)


def _limit_name(name: str, kept: Collection[str]) -> str:
    """Return the name under which an output is counted; too many names share one."""
    key = escape_name(name)[:_MOST_NAME_CHARACTERS]
    return OTHER_OUTPUTS if key not in kept and len(kept) >= MOST_OUTPUTS else key


def _count_bytes(pair: AnswerPair) -> int:
    expected = pair.expected_response.body if pair.expected_response else b""
    return len(pair.request.body) + len(expected) + len(pair.answered.body)


def _compute_scales(held: list[_Held]) -> dict[str, float]:
    """Return the mean magnitude of each output."""
    sums: dict[str, tuple[float, int]] = {}
    for _, expected, _ in held:
        for name, array in expected.arrays.items():
            total, count = sums.get(name, (0.0, 0))
            more, numbers = sum_magnitudes(array)
            sums[name] = total + more, count + numbers
    return {name: total / count if count else 0.0 for name, (total, count) in sums.items()}


def _explain(difference: ArrayDifference) -> str:
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
        parts.append("the highest score changed")
    if difference.largest:
        parts.append(f"off by {difference.largest:.2g} of the row's largest number")
    return ", ".join(parts)
