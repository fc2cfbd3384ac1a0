"""Two answers, and where they differ by more than a tolerance."""

import io
import json
import math
from collections.abc import Iterator
from typing import Any


def read(body: bytes) -> Any:
    """Numbers out of JSON or .npy; anything else as it is."""
    if body.startswith(b"\x93NUMPY"):
        import numpy as np  # deploying does without it, and so does any other answer

        return np.load(io.BytesIO(body), allow_pickle=False).tolist()
    try:
        return json.loads(body)
    except ValueError:
        return body


def unequal(wanted: Any, found: Any, tolerance: float, key: str = "") -> Iterator[tuple[Any, ...]]:
    """(where, wanted, found), every place. Booleans are no numbers here."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name in {**wanted, **found}:
            where = f"{key}.{name}" if key else name
            yield from unequal(wanted.get(name), found.get(name), tolerance, where)
    elif isinstance(wanted, list) and isinstance(found, list):
        if len(wanted) != len(found):
            yield key, f"{len(wanted)} values", f"{len(found)} values"
            return
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from unequal(one, other, tolerance, f"{key}[{index}]")
    elif not _close(wanted, found, tolerance):
        yield key, wanted, found


def _close(wanted: Any, found: Any, tolerance: float) -> bool:
    if _number(wanted) and _number(found):
        if math.isnan(wanted) or math.isnan(found):
            return math.isnan(wanted) and math.isnan(found)
        return math.isclose(wanted, found, rel_tol=tolerance, abs_tol=tolerance)
    return bool(type(wanted) is type(found) and wanted == found)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
