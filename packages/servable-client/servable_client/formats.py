"""Inputs as named arrays, the choice of a format for them, and encoding and decoding of bodies.

The formats are the codecs of servable_tensors/codecs.py that have a name there.
"""

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servable_client.errors import BadAnswerError, BadInputError
from servable_tensors import UNNAMED, TensorError, is_exact_as_float

if TYPE_CHECKING:
    from servable_tensors.codecs import Codec, RequestedModel

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
        problem = "no inputs; pass arrays by name, such as predict(feat_ids=…, feat_vals=…)"
        raise BadInputError(problem)
    for name in inputs_by_name:
        if not isinstance(name, str):
            problem = f"{name!r}: an input's name must be a str, not {type(name).__name__}"
            raise BadInputError(problem)
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
        problem = f"{name}: holds a masked array; tensors have no mask, so pass x.filled(…)"
        raise BadInputError(problem)
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
    return next((letter for letter, known in python.items() if issubclass(kind, known)), "")


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


# Protobuf responses name the outputs and their types in the fewest CPU seconds. The container's
# NGINX ignores "json" with a q; it would use a bare one as the response's type.
ANY_ANSWER = "application/x-protobuf, application/x-npz;q=0.9, application/json;q=0.8"
# Below this, JSON costs a model server no more than another format, and people can read it in
# a log or in captured data. Source: the 2 KB rows of "What makes a handler fast", measured.
MOST_JSON_BYTES = 2048


@functools.cache
def load_codecs() -> "dict[str, Codec]":
    """Return the codecs by format name, as in `format=`."""
    # On first use: protobuf alone would double the time of `import servable_client`.
    from servable_tensors.codecs import CODECS

    return {codec.form: codec for codec in CODECS.values() if codec.form}


def find_content_type(form: str) -> str:
    """Return the content type of a format. Raises `BadInputError` for an unknown one."""
    if form not in load_codecs():
        problem = f"unknown format {form!r}; use one of {', '.join(load_codecs())}, or omit it"
        raise BadInputError(problem)
    return load_codecs()[form].content_type


def choose_format(arrays: Arrays, *, typed: bool = True) -> str:
    """Return the name of the format for these arrays.

    Protobuf is for arrays, npy for an unnamed array, JSON for a few values of mixed types. JSON
    is also chosen for a few numbers in lists: [1.5] is float64 in NumPy, and in JSON the type
    that the signature requires.
    """
    kinds = {array.dtype.kind for array in arrays.values()}
    mixed = len(kinds) > 1 or "O" in kinds or not typed
    if UNNAMED in arrays and "O" not in kinds and (typed or not _is_small(arrays)):
        return "npy"
    if UNNAMED in arrays:
        return "json"
    if mixed and "c" not in kinds and "V" not in kinds and _is_small(arrays):
        return "json"
    return "protobuf"


def _is_small(arrays: Arrays) -> bool:
    # First the count, which is known; counting the bytes of a million strings takes time. JSON
    # loses the shape of an empty array.
    values = arrays.values()
    return (
        all(array.size for array in values)
        and sum(array.size for array in values) * 4 <= MOST_JSON_BYTES
        and count_bytes(values) <= MOST_JSON_BYTES
    )


def encode(form: str, arrays: Arrays, choice: "RequestedModel") -> bytes:
    """Return the encoded body. Raises `BadInputError` for values that the format cannot hold."""
    find_content_type(form)  # raises for an unknown format
    try:
        return load_codecs()[form].encode_request(arrays, choice)
    except TensorError as bad:
        raise BadInputError(str(bad)) from None


def decode(content_type: str, body: bytes) -> dict[str, Array]:
    """Return the outputs of a response, by name. Raises `BadAnswerError`."""
    by_type = {codec.content_type: codec for codec in load_codecs().values()}
    codec = by_type.get(content_type.partition(";")[0].strip().lower())
    if codec is None:
        raise BadAnswerError(
            f"the response is {content_type or 'without content type'}; this client reads "
            f"{', '.join(by_type)}; invoke() returns the bytes unchanged"
        )
    try:
        return codec.read_response(body)
    except (TensorError, ValueError) as error:
        raise BadAnswerError(f"the {content_type} response cannot be read: {error}") from None
