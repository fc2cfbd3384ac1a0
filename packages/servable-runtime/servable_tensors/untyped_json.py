"""Reading and writing of JSON without a signature, as the client does.

JSON carries no types: the result has int64, float64, bool and strings. With a signature it is
read by json_tensors.py.
Source: https://www.tensorflow.org/tfx/serving/api_rest
"""

import base64
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from servable_tensors import UNNAMED, UNNAMED_OUTPUT, TensorError, is_exact_as_float
from servable_tensors.json_tensors import build_object, decode_string, flatten
from servable_tensors.predict_messages import MOST_DIMENSIONS, MOST_OUTPUTS
from servable_tensors.tensors import Array, Arrays, build_object_array

# A float32 is written with 17 digits as a float64; one that was rounded needs no more than these.
_DECIMALS = (4, 7)
# A number that may be above float64's maximum: with an exponent of three digits, or 200 digits.
_LONG_NUMBER = re.compile(r"[eE]\+?0*[1-9][0-9]{2}|[0-9]{200}")
_SHOWN = 60  # characters of a name that a server sent


def encode_request(arrays: Arrays, signature: str | None) -> bytes:
    """Return a request by columns. Raises `TensorError` for what JSON does not hold."""
    request: dict[str, Any] = {}
    if signature:
        request["signature_name"] = signature
    values = {name: _convert_values(name, array) for name, array in arrays.items()}
    request["inputs"] = values.get(UNNAMED, values)
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()


def read_inputs(body: bytes) -> dict[str, Array]:
    """Return the inputs of a request by columns. Raises `ValueError`."""
    values = json.loads(body)["inputs"]
    return build_arrays(values if isinstance(values, dict) else {UNNAMED: values})


def read_outputs(body: bytes) -> dict[str, Array]:
    """Return the outputs of a response, by columns or by rows. Raises `ValueError`."""
    return convert_response(parse_strictly(body))


def convert_response(answer: Any) -> dict[str, Array]:
    """Return the outputs of a parsed response. Raises `ValueError`."""
    if isinstance(answer, dict) and "outputs" in answer:
        values = answer["outputs"]
    elif isinstance(answer, dict) and isinstance(answer.get("predictions"), list):
        values = _convert_rows(answer["predictions"])
    else:
        raise ValueError('it has no "outputs" or "predictions" key')
    if not isinstance(values, dict) or values.keys() == {"b64"}:
        values = {UNNAMED_OUTPUT: values}
    if len(values) > MOST_OUTPUTS:
        raise ValueError(f"the response has {len(values)} outputs; the maximum is {MOST_OUTPUTS}")
    return build_arrays(values)


def parse_strictly(body: bytes) -> Any:
    """Parse JSON; reject repeated names and numbers above float64's range. Raises `ValueError`."""
    text = body.decode()
    try:
        answer = json.loads(text, object_pairs_hook=build_object)
        if _LONG_NUMBER.search(text):
            # Once more, slowly: json makes an infinity of 1e400.
            json.loads(text, parse_float=_parse_finite)
        return answer
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _parse_finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"it holds {number[:40]}, which is above float64's maximum")
    return value


def build_arrays(values: Mapping[str, Any]) -> dict[str, Array]:
    """Return arrays of values parsed from JSON. Raises `ValueError`."""
    return {name: _build_array(name, value) for name, value in values.items()}


def _convert_rows(rows: list[Any]) -> Any:
    if not rows or not all(isinstance(row, dict) and row.keys() != {"b64"} for row in rows):
        return rows
    if any(row.keys() != rows[0].keys() for row in rows):
        raise ValueError("its rows have different outputs")
    return {name: [row[name] for row in rows] for name in rows[0]}


def _convert_values(name: str, array: Array) -> Any:
    kind = array.dtype.kind
    if 0 in array.shape[:-1]:
        raise TensorError(
            f"{name or 'the input'}: JSON can't keep the shape {list(array.shape)} of an array "
            "without elements; omit format"
        )
    if kind == "O":
        texts = build_object_array([_encode_text(value) for value in array.ravel().tolist()])
        return texts.reshape(array.shape).tolist()
    if kind == "f" and array.dtype.itemsize < 8:
        return _shorten_floats(array).tolist()
    if kind not in "biuf" or array.dtype.itemsize > 8:
        raise TensorError(f"{name or 'the input'}: JSON can't represent {array.dtype}; omit format")
    return array.tolist()


def _shorten_floats(array: Array) -> Array:
    """Return the same numbers as float64 with few decimals, if those hold them exactly."""
    exact = array.astype(np.float64)
    for decimals in _DECIMALS:
        rounded: Array = np.round(exact, decimals)
        if np.array_equal(rounded.astype(array.dtype), array, equal_nan=True):
            return rounded
    return exact


def _encode_text(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}


def _build_array(name: str, value: Any) -> Array:
    """Return the array of a value or of evenly nested lists. Raises ValueError."""
    try:
        shape, leaves = flatten(value)
        if len(shape) > MOST_DIMENSIONS:
            raise ValueError(f"has more than {MOST_DIMENSIONS} dimensions")
        kinds = set(map(type, leaves))
        if kinds & {str, dict}:
            return build_object_array([decode_string(leaf) for leaf in leaves]).reshape(shape)
        return _build_number_array(kinds, leaves).reshape(shape)
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{name[:_SHOWN]}: {error}") from None


def _build_number_array(kinds: set[type], leaves: list[Any]) -> Array:
    """Return int64, uint64, float64, or bool without changing a value. Raises ValueError."""
    if type(None) in kinds:
        raise ValueError("contains null")
    if bool in kinds:
        if len(kinds) > 1:
            raise ValueError("mixes booleans with other values")
        return np.array(leaves, np.bool_)
    if list in kinds:
        raise ValueError("is ragged: some lists are nested deeper than others")
    if kinds == {int}:
        for dtype in (np.int64, np.uint64):
            bounds = np.iinfo(dtype)
            if bounds.min <= min(leaves) and max(leaves) <= bounds.max:
                return np.array(leaves, dtype)
        raise ValueError("contains integers beyond the range of int64 and uint64")
    if not all(is_exact_as_float(leaf) for leaf in leaves if type(leaf) is int):
        raise ValueError("contains fractions and an integer that float64 would round")
    return np.array(leaves, np.float64)
