"""Arrays of one type of number become arrays of another, and no value becomes another value.

NumPy's own casts wrap integers, and turn what a float32 is too small for into infinity.
"""

from typing import Any

import numpy as np

from servable_tensors.tensors import Array


class InexactCastError(ValueError):
    """A value does not survive the cast; `str()` says which."""


def cast_exactly(array: Array, wanted: np.dtype[Any]) -> Array:
    """The array as the type `wanted`; as it is where no cast between the two is allowed.

    Integers and truth values become whatever holds every one of them exactly. Floats and complex
    numbers are rounded to the nearest, as the numbers of a JSON text are. What never
    happens: a float becomes an integer, a complex number a float, a number a truth value.
    Raises `InexactCastError` for an integer that the type does not hold, and for a finite float
    that would become infinite.
    """
    given = array.dtype
    if given == wanted or given.kind not in "biufc" or wanted.kind not in "iufc":
        return array
    if given.kind in "fc":
        return _rounded(array, wanted) if "fc".find(given.kind) <= "fc".find(wanted.kind) else array
    if given.kind == "b":
        return array.astype(wanted)
    if wanted.kind in "iu":
        bounds = np.iinfo(wanted)
        _require(array, (array < bounds.min) | (array > bounds.max), wanted)
        return array.astype(wanted)
    found: Array = _rounded(array, wanted)
    # A float beyond the greatest integer cannot be turned back and compared.
    parts, top = found.real, float(int(np.iinfo(given).max) + 1)
    with np.errstate(invalid="ignore", over="ignore"):
        _require(array, (parts >= top) | (parts.astype(given) != array), wanted)
    return found


def _rounded(array: Array, wanted: np.dtype[Any]) -> Array:
    with np.errstate(over="ignore"):
        found: Array = array.astype(wanted)
    _require(array, np.isfinite(array) & ~np.isfinite(found), wanted)
    return found


def _require(array: Array, wrong: Array, wanted: np.dtype[Any]) -> None:
    if np.any(wrong):
        value = array[wrong].flat[0].item()
        raise InexactCastError(f"holds {value!r:.40}, which {wanted} cannot hold")
