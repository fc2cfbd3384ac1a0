"""Compare the outputs of two responses: numbers, labels, NaN, shape, and type.

A golden request's known response is compared like a replay's, with the request's own tolerance.
The first element of each output that differs is reported.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from infra.parameters.model import Golden
from infra.parameters.replay import OutputTolerance, TypeTolerances
from infra.parameters.rollout import CONTENT_TYPES
from servable.answers.outputs import WHOLE_BODY, AnswerOutputs, read_outputs
from servable_tensors.codecs import PROTOBUF
from servable_tensors.tensors import Array

MISSING = "missing"
"""The problem of an output that only the expected answer has."""
# Masks, such as -1e9 in logits, are compared by themselves: they don't limit the precision of other numbers.
_MASK = 1e8


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The tolerance of one output.

    With `absolute` None, `relative` refers to the largest number of the row, or to `scale` if
    that is larger. Otherwise it refers to the expected number itself.
    """

    relative: float
    absolute: float | None = None
    scale: float = 0.0
    """Mean magnitude of the output, over many answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayDifference:
    """The difference of one output between two responses."""

    changed: NDArray[np.bool_]
    """For each number or label, by row of the answer: (rows, elements)."""
    problem: str = ""
    """Reason against a comparison by value: "type float32 became float16", "shape [1, 3] became [1, 4]"."""
    largest: float = 0.0
    """Largest difference of finite numbers, relative to the magnitude that each is compared with."""
    nan_rows: int = 0
    """Rows with NaN on one side only."""
    infinite_rows: int = 0
    labels: int = 0
    """Changed strings, integers and truth values."""
    top: Mapping[int, int] = field(default_factory=dict)
    """k -> rows whose k highest scores are at different positions, among those that differ."""
    severity: float = 0.0
    """The largest difference in tolerances; infinite for everything but numbers."""

    @property
    def row_changes(self) -> NDArray[np.bool_]:
        """Return whether each row of the answer differs."""
        return np.asarray(self.changed.any(axis=1))

    @property
    def is_equal(self) -> bool:
        return not self.problem and not self.changed.any()


def select_tolerance(
    array: Array,
    by_type: TypeTolerances,
    given: OutputTolerance | None,
    *,
    typed: bool,
    bfloat16: bool,
    scale: float,
) -> Tolerance | None:
    """Return the tolerance of an output, or None if it must be compared exactly."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if given is None or (given.relative is None and given.absolute is None):
        if kind not in "fc":
            return None
        names = {2: by_type.float16, 4: by_type.float32}
        usual = names.get(size // 2 if kind == "c" else size, by_type.float64)
        usual = by_type.bfloat16 if bfloat16 else usual if typed else by_type.float32
        return Tolerance(usual, None, scale)
    if kind not in "fciu":
        return None
    if given.absolute is not None:
        return Tolerance(given.relative or 0.0, given.absolute)
    return Tolerance(given.relative or 0.0, None, scale)


def compare_arrays(
    expected: Array,
    answered: Array,
    tolerance: Tolerance | None,
    *,
    rows: int,
    typed: bool,
    tops: Sequence[int],
) -> ArrayDifference:
    """Compare one output of two responses. `typed`: both responses' formats carry types."""
    if problem := _find_mismatch(expected, answered, typed):
        return build_total_difference(rows, problem)
    floats = expected.dtype.kind in "fc"
    if expected.dtype == answered.dtype and np.array_equal(expected, answered, equal_nan=floats):
        return ArrayDifference(changed=np.zeros((rows, 1), bool))
    if not (floats or answered.dtype.kind in "fc") and tolerance is None:
        changed = reshape_by_row(np.asarray(expected != answered, bool), rows)
        labels = int(changed.sum())
        severity = math.inf if labels else 0.0
        return ArrayDifference(changed=changed, labels=labels, severity=severity)
    return _compare_numbers(expected, answered, tolerance or Tolerance(0.0), rows, tops)


@np.errstate(all="ignore")
def sum_magnitudes(array: Array) -> tuple[float, int]:
    """Return the sum and count of magnitudes below 1e8: others are masks, as -1e9 in logits."""
    if array.dtype.kind not in "fciu" or not array.size:
        return 0.0, 0
    values = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
    usual = values[values < _MASK]
    return float(usual.sum()), usual.size


def _find_mismatch(expected: Array, answered: Array, typed: bool) -> str:
    names = {"b": "truth value", "c": "complex number", **dict.fromkeys("OSU", "string")}
    kinds = [names.get(array.dtype.kind, "number") for array in (expected, answered)]
    if kinds[0] != kinds[1]:
        return f"type {kinds[0]} became {kinds[1]}"
    if typed and expected.dtype != answered.dtype:
        return f"type {expected.dtype} became {answered.dtype}"
    if expected.shape != answered.shape:
        return f"shape {list(expected.shape)} became {list(answered.shape)}"
    return ""


def build_total_difference(rows: int, problem: str) -> ArrayDifference:
    """Return a difference in every row, for outputs that can't be compared for a `problem`."""
    return ArrayDifference(changed=np.ones((rows, 1), bool), problem=problem, severity=math.inf)


def reshape_by_row(array: Array, rows: int) -> Array:
    """Return the elements of each row in one line: an array of shape (rows, elements)."""
    return array.reshape(rows, -1) if array.size else np.empty((rows, 0), array.dtype)


def compute_references(sizes: Array, tolerance: Tolerance) -> Array:
    """Return the magnitude that each number is compared with. `sizes`: (rows, elements)."""
    if tolerance.absolute is not None:
        return sizes
    others = np.where(sizes < _MASK, sizes, 0.0)
    largest = others.max(axis=1, keepdims=True, initial=0.0)
    return np.asarray(np.maximum(sizes, np.maximum(largest, tolerance.scale)))


@np.errstate(all="ignore")
def _compare_numbers(
    expected: Array, answered: Array, tolerance: Tolerance, rows: int, tops: Sequence[int]
) -> ArrayDifference:
    was, now = (reshape_by_row(_convert_to_floats(array), rows) for array in (expected, answered))
    nan = np.isnan(was) != np.isnan(now)
    equal = (was == now) | (np.isnan(was) & np.isnan(now))
    infinite = ~equal & ~nan & ~(np.isfinite(was) & np.isfinite(now))
    absolute = np.where(equal, 0.0, np.abs(now - was))
    size = compute_references(np.where(np.isfinite(was), np.abs(was), 0.0), tolerance)
    relative = np.where(equal, 0.0, absolute / size)
    limit = tolerance.relative * size + (tolerance.absolute or 0.0)
    excess = np.where(equal, 0.0, absolute / limit)
    bad = nan | infinite
    changed = np.asarray(bad | (absolute > limit))
    return ArrayDifference(
        changed=changed,
        largest=float(relative[~bad].max(initial=0.0)),
        nan_rows=int(nan.any(axis=1).sum()),
        infinite_rows=int(infinite.any(axis=1).sum()),
        top=_count_changed_tops(expected, was, now, np.asarray(changed.any(axis=1)), rows, tops),
        severity=math.inf if bad.any() else float(excess.max(initial=0.0)),
    )


def _convert_to_floats(array: Array) -> Array:
    """Convert numbers to float64; a complex number becomes two of them."""
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag], axis=-1).astype(np.float64)
    return array.astype(np.float64)


def _count_changed_tops(
    array: Array,
    was: Array,
    now: Array,
    differing: NDArray[np.bool_],
    rows: int,
    tops: Sequence[int],
) -> dict[int, int]:
    """Count the rows whose k highest scores moved. Ties within the tolerance don't differ."""
    width = array.shape[-1] if array.ndim else 1
    one_vector = rows == 1 and array.ndim == 1
    if width < 2 or not (array.ndim == 2 or one_vector) or array.dtype.kind == "c":
        return {}
    if rows == 1 and array.ndim == 2:  # several vectors in an answer without rows in common
        pick = np.repeat(differing, array.shape[0])
        was, now = was.reshape(-1, width), now.reshape(-1, width)
    else:
        pick = differing
    was, now = (np.nan_to_num(side[pick], nan=-math.inf) for side in (was, now))
    top = {}
    for k in tops:
        if k < width and len(was):
            before, after = (np.sort(np.argpartition(-side, k - 1)[:, :k]) for side in (was, now))
            top[k] = int((before != after).any(axis=1).sum())
    return top


def read_known_response(golden: Golden) -> bytes | None:
    """Return the known response of a golden request, or None if it hasn't been recorded."""
    file = None if golden.answer is None else golden.answer.path
    return file.read_bytes() if file is not None and file.is_file() else None


def find_content_type(golden: Golden) -> str:
    """Return the known response's content type by its file's suffix; "": its bytes decide."""
    return "" if golden.answer is None else CONTENT_TYPES.get(PurePath(golden.answer).suffix, "")


def find_differences(
    wanted: bytes, actual: bytes, tolerance: float, content_type: str = ""
) -> Iterator[tuple[str, object, object]]:
    """Yield (path, wanted, actual) for the first difference in each output of two responses."""
    if wanted == actual:
        return
    before, after = (_read_outputs_or_protobuf(body, content_type) for body in (wanted, actual))
    limit = Tolerance(tolerance, tolerance)
    for name in {**before.arrays, **after.arrays}:
        array, other = before.arrays.get(name), after.arrays.get(name)
        if array is None or other is None:
            there = "an output"
            yield name, "none" if array is None else there, "none" if other is None else there
            continue
        rows, typed = before.count_rows(name), before.typed and after.typed
        exact = array.dtype.kind not in "fciu" or other.dtype.kind not in "fciu"
        given = None if exact else limit
        found = compare_arrays(array, other, given, rows=rows, typed=typed, tops=())
        if found.problem:
            yield name, f"{array.dtype} {list(array.shape)}", f"{other.dtype} {list(other.shape)}"
        elif not found.is_equal:
            # A complex number is compared as two.
            at = int(np.argmax(found.changed)) * array.size // found.changed.size
            path = "".join(f"[{number}]" for number in np.unravel_index(at, array.shape))
            was, now = (_convert_to_plain_value(side.flat[at]) for side in (array, other))
            yield f"{name}{path}", was, now


def _read_outputs_or_protobuf(body: bytes, content_type: str) -> AnswerOutputs:
    """Read a response, as protobuf if neither type nor first bytes identify its format."""
    outputs = read_outputs(body, content_type)
    if content_type or set(outputs.arrays) != {WHOLE_BODY}:
        return outputs
    message = read_outputs(body, PROTOBUF)
    return message if message.arrays else outputs


def _convert_to_plain_value(value: object) -> object:
    plain = value.item() if isinstance(value, np.generic) else value
    return plain.decode(errors="replace") if isinstance(plain, bytes) else plain
