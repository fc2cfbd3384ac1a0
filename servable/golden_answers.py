"""The known answer of a golden request, and its differences from another answer.

Replays compare otherwise (servable/replay/compare), by rows, with a tolerance for each output and NumPy:
1,000 numbers take it 0.05 ms, and the walk here 1 ms (2026-11-24). The base has no NumPy for these answers,
and the first path that differs is all that is told of one.
"""

import io
import json
import math
from collections.abc import Iterator
from typing import Any

from infra.parameters.model import Golden
from servable_tensors import TensorError


def known_answer(golden: Golden) -> bytes | None:
    """Return the known answer of a golden request; None if it has not been recorded."""
    file = None if golden.answer is None else golden.answer.path
    return file.read_bytes() if file is not None and file.is_file() else None


def differing(
    wanted: bytes, actual: bytes, tolerance: float
) -> Iterator[tuple[str, object, object]]:
    """Yield (path, wanted, actual) of every difference between two answers' bodies."""
    yield from _differing(_values(wanted), _values(actual), tolerance)


def _values(body: bytes) -> Any:
    """Parse JSON, .npy or a PredictResponse; return any other body unchanged."""
    if body.startswith(b"\x93NUMPY"):
        import numpy as np  # deploying does without it, and so does any other answer

        return np.load(io.BytesIO(body), allow_pickle=False).tolist()
    try:
        return json.loads(body)
    except ValueError:
        pass
    from servable_tensors.codecs import CODECS, PROTOBUF  # NumPy, as above

    try:
        return {
            name: array.tolist() for name, array in CODECS[PROTOBUF].read_answer(body).items()
        } or body
    except (TensorError, ValueError):
        return body


def _differing(
    wanted: Any, actual: Any, tolerance: float, key: str = ""
) -> Iterator[tuple[Any, ...]]:
    """Yield (path, wanted, actual) of every difference. Booleans do not count as numbers."""
    if isinstance(wanted, dict) and isinstance(actual, dict):
        for name in {**wanted, **actual}:
            where = f"{key}.{name}" if key else name
            yield from _differing(wanted.get(name), actual.get(name), tolerance, where)
    elif isinstance(wanted, list) and isinstance(actual, list):
        if len(wanted) != len(actual):
            yield key, f"{len(wanted)} values", f"{len(actual)} values"
            return
        for index, (expected, present) in enumerate(zip(wanted, actual, strict=True)):
            yield from _differing(expected, present, tolerance, f"{key}[{index}]")
    elif not _close(wanted, actual, tolerance):
        yield key, wanted, actual


def _close(wanted: Any, actual: Any, tolerance: float) -> bool:
    if _number(wanted) and _number(actual):
        if math.isnan(wanted) or math.isnan(actual):
            return math.isnan(wanted) and math.isnan(actual)
        return math.isclose(wanted, actual, rel_tol=tolerance, abs_tol=tolerance)
    return bool(type(wanted) is type(actual) and wanted == actual)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
