"""Compare the outputs of two answers: numbers, labels, NaN, shape and type.

A golden request's known answer is compared like a replay's, with the request's own tolerance; the first
element of each output that differs is named.
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
from servable.answers.outputs import WHOLE_BODY, AnswerOutputs, outputs_of
from servable_tensors.codecs import PROTOBUF
from servable_tensors.tensors import Array

MISSING = "missing"
"""The problem of an output that only the expected answer has."""
# Masks, as -1e9 in logits, say nothing of the others' exactness: judged by themselves.
_MASK = 1e8


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The tolerance of one output.

    With `absolute` None, `relative` is of the largest number of the row, or of `scale` if that is larger;
    otherwise of the expected number itself.
    """

    relative: float
    absolute: float | None = None
    scale: float = 0.0
    """Mean magnitude of the output, over many answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayDifference:
    """Difference of one output in two answers."""

    differing: NDArray[np.bool_]
    """For each row of the answer."""
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
    """k -> rows whose k highest scores are others, among those that differ."""
    severity: float = 0.0
    """The largest difference in tolerances; infinite for everything but numbers."""

    @property
    def equal(self) -> bool:
        return not self.problem and not self.differing.any()


def tolerance_of(
    array: Array,
    by_type: TypeTolerances,
    given: OutputTolerance | None,
    *,
    typed: bool,
    bfloat16: bool,
    scale: float,
) -> Tolerance | None:
    """Return the tolerance of an output; None if it is compared exactly."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    usual = None
    if kind in "fc":
        width = size // 2 if kind == "c" else size
        names = {2: by_type.float16, 4: by_type.float32}
        usual = names.get(width, by_type.float64) if typed else by_type.float32
        usual = by_type.bfloat16 if bfloat16 else usual
    if given is None or (given.relative is None and given.absolute is None):
        return None if usual is None else Tolerance(usual, None, scale)
    if kind not in "fciu":
        return None
    if given.absolute is not None:
        return Tolerance(given.relative or 0.0, given.absolute)
    return Tolerance(given.relative or 0.0, None, scale)


def compared(
    expected: Array,
    answered: Array,
    tolerance: Tolerance | None,
    *,
    rows: int,
    typed: bool,
    tops: Sequence[int],
) -> ArrayDifference:
    """Compare an output of two answers of `rows` rows. `typed`: whether both forms carry types."""
    if problem := _problem(expected, answered, typed):
        return everywhere(rows, problem)
    floats = expected.dtype.kind in "fc"
    if expected.dtype == answered.dtype and np.array_equal(expected, answered, equal_nan=floats):
        return ArrayDifference(differing=np.zeros(rows, bool))
    if not (floats or answered.dtype.kind in "fc") and tolerance is None:
        return _labels(expected, answered, rows)
    return _numbers(expected, answered, tolerance or Tolerance(0.0), rows, tops)


@np.errstate(all="ignore")
def magnitude(array: Array) -> tuple[float, int]:
    """Return the sum of the magnitudes of all numbers but masks, and their count; (0, 0) of none."""
    if array.dtype.kind not in "fciu" or not array.size:
        return 0.0, 0
    values = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
    usual = values[values < _MASK]
    return float(usual.sum()), usual.size


def _problem(expected: Array, answered: Array, typed: bool) -> str:
    kinds = [_kind(array) for array in (expected, answered)]
    if kinds[0] != kinds[1]:
        return f"type {kinds[0]} became {kinds[1]}"
    if typed and expected.dtype != answered.dtype:
        return f"type {expected.dtype} became {answered.dtype}"
    if expected.shape != answered.shape:
        return f"shape {list(expected.shape)} became {list(answered.shape)}"
    return ""


def _kind(array: Array) -> str:
    if array.dtype.kind in "OSU":
        return "string"
    return {"b": "truth value", "c": "complex number"}.get(array.dtype.kind, "number")


def everywhere(rows: int, problem: str) -> ArrayDifference:
    """Return a difference in every row that is none of values."""
    return ArrayDifference(differing=np.ones(rows, bool), problem=problem, severity=math.inf)


def by_row(array: Array, rows: int) -> Array:
    """Return the elements of each row side by side: shape (rows, elements)."""
    return array.reshape(rows, -1) if array.size else np.empty((rows, 0), array.dtype)


def references(sizes: Array, tolerance: Tolerance) -> Array:
    """Return the magnitude that each number is compared with. `sizes`: their own, shape (rows, elements)."""
    if tolerance.absolute is not None:
        return sizes
    others = np.where(sizes < _MASK, sizes, 0.0)
    largest = others.max(axis=1, keepdims=True, initial=0.0)
    return np.asarray(np.maximum(sizes, np.maximum(largest, tolerance.scale)))


def _labels(expected: Array, answered: Array, rows: int) -> ArrayDifference:
    changed = by_row(np.asarray(expected != answered, bool), rows)
    labels = int(changed.sum())
    return ArrayDifference(
        differing=np.asarray(changed.any(axis=1), bool),
        labels=labels,
        severity=math.inf if labels else 0.0,
    )


@np.errstate(all="ignore")
def _numbers(
    expected: Array, answered: Array, tolerance: Tolerance, rows: int, tops: Sequence[int]
) -> ArrayDifference:
    was, now = (by_row(_plain(array), rows) for array in (expected, answered))
    nan = np.isnan(was) != np.isnan(now)
    equal = (was == now) | (np.isnan(was) & np.isnan(now))
    infinite = ~equal & ~nan & ~(np.isfinite(was) & np.isfinite(now))
    absolute = np.where(equal, 0.0, np.abs(now - was))
    size = references(np.where(np.isfinite(was), np.abs(was), 0.0), tolerance)
    relative = np.where(equal, 0.0, absolute / size)
    limit = tolerance.relative * size + (tolerance.absolute or 0.0)
    excess = np.where(equal, 0.0, absolute / limit)
    bad = nan | infinite
    changed = bad | (absolute > limit)
    differing: NDArray[np.bool_] = np.asarray(changed.any(axis=1), bool)
    return ArrayDifference(
        differing=differing,
        largest=float(relative[~bad].max(initial=0.0)),
        nan_rows=int(nan.any(axis=1).sum()),
        infinite_rows=int(infinite.any(axis=1).sum()),
        top=_count_changed_tops(expected, was, now, differing, rows, tops),
        severity=math.inf if bad.any() else float(excess.max(initial=0.0)),
    )


def _plain(array: Array) -> Array:
    """Convert numbers to float64; a complex one to two of them."""
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
    """Count, among the rows that differ, those whose k highest scores are different ones.

    Ties within the tolerance are no change: such a row does not differ.
    """
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


def known_answer(golden: Golden) -> bytes | None:
    """Return the known answer of a golden request; None if it has not been recorded."""
    file = None if golden.answer is None else golden.answer.path
    return file.read_bytes() if file is not None and file.is_file() else None


def content_type_of(golden: Golden) -> str:
    """Return the content type of the known answer, by its file's ending; empty: its first bytes tell."""
    return "" if golden.answer is None else CONTENT_TYPES.get(PurePath(golden.answer).suffix, "")


def differing(
    wanted: bytes, actual: bytes, tolerance: float, content_type: str = ""
) -> Iterator[tuple[str, object, object]]:
    """Yield (path, wanted, actual) of the first difference of each output of two answers' bodies."""
    if wanted == actual:
        return
    before, after = (_outputs(body, content_type) for body in (wanted, actual))
    limit = Tolerance(tolerance, tolerance)
    for name in {**before.arrays, **after.arrays}:
        if name not in after.arrays or name not in before.arrays:
            there = ["an output" if name in side.arrays else "none" for side in (before, after)]
            yield name, there[0], there[1]
            continue
        array, other = before.arrays[name], after.arrays[name]
        rows, typed = before.rows_of(name), before.typed and after.typed
        exact = array.dtype.kind not in "fciu" or other.dtype.kind not in "fciu"
        found = compared(array, other, None if exact else limit, rows=rows, typed=typed, tops=())
        if found.problem:
            forms = [f"{side.dtype} {list(side.shape)}" for side in (array, other)]
            yield name, forms[0], forms[1]
        elif found.differing.any():
            yield _first(name, array, other, int(np.argmax(found.differing)), rows, limit)


def _outputs(body: bytes, content_type: str) -> AnswerOutputs:
    """Read an answer; of unknown type, as protobuf if its first bytes tell nothing."""
    outputs = outputs_of(body, content_type)
    if content_type or set(outputs.arrays) != {WHOLE_BODY}:
        return outputs
    message = outputs_of(body, PROTOBUF)
    return message if message.arrays else outputs


def _first(
    name: str, array: Array, other: Array, row: int, rows: int, limit: Tolerance
) -> tuple[str, object, object]:
    """Return the first element of a row that differs."""
    was, now = (by_row(side, rows)[row] for side in (array, other))
    for at in range(len(was)):
        sides = was[at : at + 1], now[at : at + 1]
        exact = was.dtype.kind not in "fciu"
        one = compared(*sides, None if exact else limit, rows=1, typed=False, tops=())
        if one.differing.any():
            break
    place = np.unravel_index(row * len(was) + at, array.shape) if array.shape else ()
    path = name + "".join(f"[{number}]" for number in place)
    return path, _shown(sides[0][0]), _shown(sides[1][0])


def _shown(value: object) -> object:
    plain = value.item() if isinstance(value, np.generic) else value
    return plain.decode(errors="replace") if isinstance(plain, bytes) else plain
