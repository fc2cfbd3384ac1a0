"""Conversion of the JSON body of a :predict call to one array per input of the signature.

Row format: {"instances": [...]}; columnar format: {"inputs": ...}. Checks and messages are
TensorFlow Serving's. Source: https://www.tensorflow.org/tfx/serving/api_rest and
https://github.com/tensorflow/serving (tensorflow_serving/util/json_tensor.cc)
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from servable_local.container.http_messages import HttpError
from servable_tensors.tensors import Array


def flatten(value: object) -> tuple[list[int], list[Any]]:
    """Return the shape of evenly nested lists, and their values. A lone value has no shape.

    Raises `HttpError` (400) at the first list that is longer, shorter, or deeper than the others.
    """
    shape: list[int] = []
    first = value
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
    level: list[Any] = [value]
    for depth, size in enumerate(shape):
        for item in level:
            if not isinstance(item, list):
                raise HttpError(
                    f"JSON Value: {format_for_message(item)} found at incorrect level: {depth + 1} "
                    f"in the JSON DOM. Expected at level: {len(shape)}",
                )
            if len(item) != size:
                raise HttpError(
                    f"Encountered list at unexpected size: {len(item)} at level: {depth} "
                    f"expected size: {size}",
                )
        level = list(chain.from_iterable(level))
    if any(isinstance(leaf, list) for leaf in level):
        rank = len(shape)
        raise HttpError(f"Encountered list at unexpected level: {rank} expected < {rank}")
    return shape, level


def format_for_message(value: object) -> str:
    """Format a JSON value for a message, cut at 200 characters."""
    return json.dumps(value)[:200]


# type -> bits that hold a whole number exactly
_FLOATS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
_INTEGERS = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
# type -> Python's types of the JSON values that it takes; _bytes says which a string takes
_TYPES: dict[str, frozenset[type]] = {
    **dict.fromkeys(_FLOATS, frozenset({int, float})),
    **dict.fromkeys(_INTEGERS, frozenset({int})),
    "bool": frozenset({bool}),
}
# TensorFlow Serving's messages use the names of the C++ enumeration.
_SHOWN_TYPES = {"float32": "float", "float64": "double", "float16": "half"}


def to_array(value: object, dtype: str) -> Array:
    """Convert a value, or evenly nested lists, to an array. Raises `HttpError` (400) for others.

    bfloat16 becomes float32: NumPy has no such type.
    """
    shape, leaves = flatten(value)
    # type() and not isinstance(): a JSON true isn't a number, though bool is an int in Python.
    types = frozenset(map(type, leaves))
    allowed = _TYPES.get(dtype, types)
    if types - allowed:
        raise _build_type_error(next(leaf for leaf in leaves if type(leaf) not in allowed), dtype)
    if dtype in _FLOATS:
        array = _convert_floats(leaves, dtype)
    elif dtype in _INTEGERS:
        bounds = np.iinfo(dtype)
        for leaf in (min(leaves), max(leaves)) if leaves else ():
            if not bounds.min <= leaf <= bounds.max:
                raise _build_type_error(leaf, dtype)
        array = np.array(leaves, dtype=dtype)
    elif dtype == "bool":
        array = np.array(leaves, dtype=np.bool_)
    elif dtype == "string":
        array = np.empty(len(leaves), dtype=object)
        array[:] = [_convert_bytes(leaf) for leaf in leaves]
    else:
        first = format_for_message(leaves[0]) if leaves else "[]"
        raise HttpError(f"Conversion of JSON Value: {first} to type: {dtype}", 501)
    return array.reshape(shape)


def is_base64(value: object) -> bool:
    """Return whether a value is {"b64": "..."}: JSON's format of bytes."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def _convert_floats(leaves: Sequence[Any], dtype: str) -> Array:
    if int in set(map(type, leaves)):
        # An integer that would silently change is rejected, unless it has more than 64 bits:
        # JSON's parser reads that as a decimal.
        exact = (1 << _FLOATS[dtype]) - 1
        for leaf in leaves:
            if type(leaf) is int and exact < abs(leaf) and -(1 << 63) <= leaf < (1 << 64):
                raise _build_precision_error(leaf, dtype)
    try:
        array = np.array(leaves, dtype=np.float64)
    except OverflowError:
        raise HttpError("JSON Parse error: Number too big to be stored in double.") from None
    narrow = np.dtype("float32" if dtype == "bfloat16" else dtype)
    beyond = np.isfinite(array) & (np.abs(array) > float(np.finfo(narrow).max))
    if beyond.any():
        raise _build_precision_error(leaves[int(np.argmax(beyond))], dtype)
    return array.astype(narrow)


def _convert_bytes(leaf: object) -> bytes:
    if isinstance(leaf, str):
        try:
            return leaf.encode()
        except UnicodeEncodeError:
            raise HttpError("JSON Parse error: The surrogate pair in string is invalid.") from None
    if not isinstance(leaf, dict):
        raise _build_type_error(leaf, "string")
    if not is_base64(leaf):
        shown = format_for_message(leaf)
        raise HttpError(f"JSON Value: {shown} not formatted correctly for base64 data")
    try:
        return base64.b64decode(leaf["b64"], validate=True)
    except (binascii.Error, ValueError):
        raise HttpError("Unable to base64 decode") from None


def _build_type_error(leaf: object, dtype: str) -> HttpError:
    kinds = {type(None): "Null", dict: "Object", str: "String"}
    kind = str(leaf) if isinstance(leaf, bool) else kinds.get(type(leaf), "Number")
    shown, target = format_for_message(leaf), _SHOWN_TYPES.get(dtype, dtype)
    return HttpError(f"JSON Value: {shown} Type: {kind} is not of expected type: {target}")


def _build_precision_error(leaf: object, dtype: str) -> HttpError:
    shown, target = format_for_message(leaf), _SHOWN_TYPES.get(dtype, dtype)
    return HttpError(f"Cannot convert JSON value: {shown} to {target} without loss of precision.")


DEFAULT_SIGNATURE = "serving_default"


class PredictRequest(NamedTuple):
    """A request. `rows`: whether the response has rows ("predictions") or columns ("outputs")."""

    signature: str
    arrays: dict[str, Array]
    rows: bool


def parse_request(body: bytes, signatures: Mapping[str, Mapping[str, str]]) -> PredictRequest:
    """Parse a request to one of the `signatures`: name -> input -> type.

    Raises `HttpError`, with the message of TensorFlow Serving, for anything other than a request.
    """
    request = parse_json_object(body)
    signature = request.get("signature_name", "")
    if not isinstance(signature, str):
        raise HttpError("'signature_name' key must be a string value.")
    signature = signature or DEFAULT_SIGNATURE
    if signature not in signatures:
        raise HttpError(f'Serving signature name: "{signature}" not found in signature def')
    inputs = signatures[signature]
    if "instances" in request:
        if "inputs" in request:
            raise HttpError(
                "Not formatted correctly expecting only one of 'inputs' or 'instances' "
                "keys to exist ",
            )
        return PredictRequest(signature, _parse_rows(request["instances"], inputs), True)
    if "inputs" in request:
        return PredictRequest(signature, _parse_columns(request["inputs"], inputs), False)
    raise HttpError("Missing 'inputs' or 'instances' key")


def parse_json_object(body: bytes) -> dict[str, Any]:
    """Parse the JSON object in a request's body. Raises `HttpError`."""
    if not body:
        raise HttpError("JSON Parse error: The document is empty")
    try:
        request = json.loads(body)
    # A number of more than 4300 digits is a ValueError too; deep nesting is the other one.
    except (ValueError, RecursionError) as error:
        raise HttpError(f"JSON Parse error: {error}") from None
    if not isinstance(request, dict):
        raise HttpError("JSON Value is not object")
    return request


def _parse_columns(value: object, inputs: Mapping[str, str]) -> dict[str, Array]:
    if not isinstance(value, dict) or is_base64(value):
        if len(inputs) > 1:
            raise HttpError(
                "inputs is a plain value/list, but expecting an object as multiple "
                "input tensors required as per tensorinfo_map",
            )
        value = dict.fromkeys(inputs, value)
    for name in inputs:
        if name not in value:
            raise HttpError(f"Missing named input: {name} in 'inputs' object.")
    return {name: to_array(value[name], dtype) for name, dtype in inputs.items()}


def _parse_rows(rows: object, inputs: Mapping[str, str]) -> dict[str, Array]:
    if not isinstance(rows, list):
        raise HttpError("Excepting 'instances' to be an list/array")
    if not rows:
        raise HttpError("No values in 'instances' array")
    named = isinstance(rows[0], dict) and not is_base64(rows[0])
    if not named and len(inputs) > 1:
        raise HttpError(
            "instances is a plain list, but expecting list of objects as multiple "
            "input tensors required as per tensorinfo_map",
        )
    for number, row in enumerate(rows):
        if named != (isinstance(row, dict) and not is_base64(row)):
            expected, got = ("object", "list") if named else ("value/list", "object")
            raise HttpError(f"Expecting {expected} but got {got} at item {number} of input list")
        if named and row.keys() != inputs.keys():
            raise HttpError(
                f"Failed to process element: {number} of 'instances' list. JSON object: "
                f"{format_for_message(row)} keys must be equal to: {','.join(inputs)}",
            )
    columns = {name: [row[name] for row in rows] if named else rows for name in inputs}
    return {name: _convert_column(columns[name], name, dtype) for name, dtype in inputs.items()}


def _convert_column(values: list[Any], name: str, dtype: str) -> Array:
    try:
        return to_array(values, dtype)
    except HttpError:
        # The whole column at once is quick; which row is at fault only matters now.
        first = None
        for number, value in enumerate(values):
            prefix = f"Failed to process element: {number} key: {name} of 'instances' list. Error: "
            try:
                array = to_array(value, dtype)
            except HttpError as single:
                raise HttpError(prefix + single.message) from None
            first = array if first is None else first
            if array.shape != first.shape:
                shapes = f"{list(first.shape)} but got: {list(array.shape)}"
                raise HttpError(f"{prefix}Expecting shape {shapes}") from None
        raise
