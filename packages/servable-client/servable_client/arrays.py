"""Conversion of the caller's inputs to named arrays, and the named outputs."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from servable_client.errors import BadInputError
from servable_tensors import UNNAMED, is_exact_as_float

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


class Outputs(dict[str, Array]):
    """A model's outputs by name. Numeric arrays share the response's memory and are read-only.

    `variant`: the production variant that responded; None for a container.
    """

    def __init__(self, arrays: Arrays, variant: str | None = None) -> None:
        super().__init__(arrays)
        self.variant = variant

    @property
    def only(self) -> Array:
        """Return the only output. Raises `ValueError` unless the model has exactly one output."""
        if len(self) != 1:
            raise ValueError(f"the model has {len(self)} outputs: {', '.join(self)}; name one")
        return next(iter(self.values()))


def as_arrays(inputs: Any, named: Mapping[str, Any]) -> dict[str, Array]:
    """Return one array for each input: from a mapping, keywords, or a single value without a name.

    Text becomes bytes in UTF-8, in an array of `object`, as TensorFlow's strings are.
    Raises `BadInputError`.
    """
    inputs_by_name: dict[str, Any] = {}
    if isinstance(inputs, Mapping):
        inputs_by_name.update(inputs)
    elif inputs is not None:
        inputs_by_name[UNNAMED] = inputs
    if twice := inputs_by_name.keys() & named.keys():
        raise BadInputError(f"{', '.join(sorted(twice))}: passed twice; pass each input once")
    inputs_by_name.update(named)
    if not inputs_by_name:
        raise BadInputError(
            "no inputs; pass arrays by name, such as predict(feat_ids=…, feat_vals=…)"
        )
    for name in inputs_by_name:
        if not isinstance(name, str):
            raise BadInputError(
                f"{name!r}: an input's name must be a str, not {type(name).__name__}"
            )
        _encode_utf8(repr(name), name)
    if UNNAMED in inputs_by_name and len(inputs_by_name) > 1:
        raise BadInputError("one input has no name but others do; name all of them")
    return {name: _convert_to_array(name, value) for name, value in inputs_by_name.items()}


def has_dtypes(inputs: Any, named: Mapping[str, Any]) -> bool:
    """Return whether every value has a NumPy type, so that NumPy guesses the type of no list."""
    values = [*(inputs.values() if isinstance(inputs, Mapping) else (inputs,)), *named.values()]
    return all(hasattr(value, "dtype") for value in values if value is not None)


def _convert_to_array(name: str, value: Any) -> Array:
    name = name or "the input"
    leaves = [value] if hasattr(value, "dtype") else _collect_leaves(value)
    if any(issubclass(kind, np.ma.MaskedArray) for kind in set(map(type, leaves))):
        raise BadInputError(
            f"{name}: holds a masked array; tensors have no mask, so pass x.filled(…)"
        )
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BadInputError(f"{name}: cannot be converted to an array: {error}") from None
    if not hasattr(value, "dtype"):
        array = _keep_values(name, value, leaves, array)
    if array.dtype.kind not in "OSU":
        return array
    texts = np.empty(array.size, object)
    texts[:] = [_convert_to_bytes(name, text) for text in array.ravel().tolist()]
    return texts.reshape(array.shape)


def _collect_leaves(value: Any) -> list[Any]:
    """Return the elements of nested lists at the first depth where an element isn't a list."""
    level = [value]
    while level and all(isinstance(nested, list | tuple) for nested in level):
        level = [leaf for nested in level for leaf in nested]
    return level


_TRUTH, _NUMBERS, _STRINGS = "truth values", "numbers", "strings"
_HOLDS = {"b": _TRUTH, **dict.fromkeys("iufc", _NUMBERS), **dict.fromkeys("SU", _STRINGS)}


def _keep_values(name: str, value: Any, leaves: list[Any], array: Array) -> Array:
    """Return an array with the values of the lists and scalars from which NumPy made `array`.

    NumPy writes 1 next to "a" as "1" and True next to 2 as 1, and drops zeros at a string's end.
    It makes float64 of [2**63, 1] and of integers next to a 0.5, which rounds those above 2**53.
    Raises `BadInputError` for mixed values and for integers that float64 would round.
    """
    if any(isinstance(each, np.ndarray) for each in leaves):
        if len({getattr(each, "dtype", None) for each in leaves}) == 1:
            return array
        pieces = [np.asarray(each, getattr(each, "dtype", object)).ravel() for each in leaves]
        leaves = [leaf for piece in pieces for leaf in piece.tolist()]
    kinds = {leaf_type: _find_kind(leaf_type) for leaf_type in set(map(type, leaves))}
    if not all(kind in _HOLDS for kind in kinds.values()):
        return array  # nothing that can be looked into, as a range; or nothing that can be sent
    held = sorted({_HOLDS[kind] for kind in kinds.values()})
    if len(held) > 1:
        raise BadInputError(f"{name}: holds {' and '.join(held)}; use one kind per array")
    if held == [_STRINGS]:
        return np.asarray(value, object)
    if held == [_NUMBERS] and array.dtype.kind in "fcO":
        whole = [each for each in leaves if kinds[type(each)] in "iu"]
        if len(whole) == len(leaves):
            return _build_integer_array(name, whole).reshape(array.shape)
        if array.dtype.kind == "O" or not all(map(is_exact_as_float, whole)):
            raise BadInputError(
                f"{name}: mixes an integer above 2**53 with fractions, which float64 rounds; "
                "pass only integers or only floats"
            )
    return array


def _find_kind(kind: type) -> str:
    """Return NumPy's kind letter for a Python or NumPy type; empty for any other type."""
    if issubclass(kind, np.generic):
        return np.dtype(kind).kind
    python = {"b": bool, "i": int, "f": float, "c": complex, "S": bytes, "U": str}
    return next(
        (letter for letter, python_type in python.items() if issubclass(kind, python_type)), ""
    )


def _build_integer_array(name: str, leaves: list[Any]) -> Array:
    for dtype in (np.int64, np.uint64):
        bounds = np.iinfo(dtype)
        if bounds.min <= min(leaves) and max(leaves) <= bounds.max:
            return np.array(leaves, dtype)
    raise BadInputError(
        f"{name}: holds integers from {min(leaves)} to {max(leaves)}, which fit neither int64 nor "
        "uint64; pass floats or strings"
    )


def _convert_to_bytes(name: str, value: Any) -> bytes:
    if isinstance(value, str):
        return _encode_utf8(name, value)
    if isinstance(value, bytes):
        return value
    raise BadInputError(
        f"{name}: holds a {type(value).__name__}; "
        "an array contains numbers, Booleans, or strings, evenly nested"
    )


def _encode_utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadInputError(
            f"{name}: the character {text[error.start]!r} is half of a surrogate pair, which UTF-8 "
            'cannot encode; pass bytes, or text.encode(errors="surrogatepass")'
        ) from None


def count_bytes(arrays: Iterable[Array]) -> int:
    """Return the arrays' total size in bytes: buffer sizes of numbers, lengths of strings."""
    return sum(
        sum(map(len, array.ravel().tolist())) if array.dtype == object else array.nbytes
        for array in arrays
    )
