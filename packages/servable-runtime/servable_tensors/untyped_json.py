"""JSON as those read and write it who know no signature: the client.

It carries no types: what comes back are int64, float64, bool and strings. With a signature it is
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

from servable_tensors import UNNAMED, UNNAMED_OUTPUT, TensorError
from servable_tensors.json_tensors import flat, string_of
from servable_tensors.predict_messages import MOST_DIMENSIONS, MOST_OUTPUTS
from servable_tensors.tensors import Array, Arrays, objects

# A float32 is written with 17 digits as a float64; one that was rounded needs no more than these.
_DECIMALS = (4, 7)
# A number that may be above what float64 holds: with an exponent of three digits, or 200 digits.
_LONG_NUMBER = re.compile(r"[eE]\+?0*[1-9][0-9]{2}|[0-9]{200}")
_SHOWN = 60  # characters of a name that a server sent


def written(arrays: Arrays, signature: str | None) -> bytes:
    """A request by columns.

    Raises `TensorError` for what JSON does not hold: complex numbers, long doubles, some shapes.
    """
    request: dict[str, Any] = {}
    if signature:
        request["signature_name"] = signature
    values = {name: _values(name, array) for name, array in arrays.items()}
    request["inputs"] = values.get(UNNAMED, values)
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()


def inputs(body: bytes) -> dict[str, Array]:
    """Inputs of a request by columns. Raises `ValueError`."""
    values = json.loads(body)["inputs"]
    return columns(values if isinstance(values, dict) else {UNNAMED: values})


def outputs(body: bytes) -> dict[str, Array]:
    """Outputs of an answer, by columns ("outputs") or by rows ("predictions"). Raises `ValueError`."""
    return tensors(parsed(body))


def tensors(answer: Any) -> dict[str, Array]:
    """Outputs of an answer that is parsed. Raises `ValueError`."""
    if isinstance(answer, dict) and "outputs" in answer:
        values = answer["outputs"]
    elif isinstance(answer, dict) and isinstance(answer.get("predictions"), list):
        values = _columns(answer["predictions"])
    else:
        raise ValueError('it has neither "outputs" nor "predictions"')
    if not isinstance(values, dict) or values.keys() == {"b64"}:
        values = {UNNAMED_OUTPUT: values}
    if len(values) > MOST_OUTPUTS:
        raise ValueError(f"{len(values)} outputs; at most {MOST_OUTPUTS} are read")
    return columns(values)


def parsed(body: bytes) -> Any:
    """JSON in which every name is there once and every number is what it says. Raises `ValueError`."""
    text = body.decode()
    try:
        answer = json.loads(text, object_pairs_hook=_object)
        if _LONG_NUMBER.search(text):
            # Once more, slowly: json makes an infinity of 1e400.
            json.loads(text, parse_float=_finite)
        return answer
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object in it has the same name twice")
    return members


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"it holds {number[:40]}, which is above what float64 holds")
    return value


def columns(values: Mapping[str, Any]) -> dict[str, Array]:
    """Arrays of values parsed from JSON. Raises `ValueError`."""
    return {name: _array(name, value) for name, value in values.items()}


def _columns(rows: list[Any]) -> Any:
    if not rows or not all(isinstance(row, dict) and row.keys() != {"b64"} for row in rows):
        return rows
    if any(row.keys() != rows[0].keys() for row in rows):
        raise ValueError("its rows do not all have the same outputs")
    return {name: [row[name] for row in rows] for name in rows[0]}


def _values(name: str, array: Array) -> Any:
    kind = array.dtype.kind
    if 0 in array.shape[:-1]:
        raise TensorError(
            f"{name or 'the input'}: JSON forgets the shape {list(array.shape)} of an array that "
            "holds nothing; leave format out"
        )
    if kind == "O":
        texts = objects([_text(value) for value in array.ravel().tolist()])
        return texts.reshape(array.shape).tolist()
    if kind == "f" and array.dtype.itemsize < 8:
        return _short(array).tolist()
    if kind not in "biuf" or array.dtype.itemsize > 8:
        raise TensorError(f"{name or 'the input'}: JSON holds no {array.dtype}; leave format out")
    return array.tolist()


def _short(array: Array) -> Array:
    """The same numbers as float64 with few digits, where so many decimals hold them exactly."""
    exact = array.astype(np.float64)
    for decimals in _DECIMALS:
        rounded: Array = np.round(exact, decimals)
        if np.array_equal(rounded.astype(array.dtype), array, equal_nan=True):
            return rounded
    return exact


def _text(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}


def _array(name: str, value: Any) -> Array:
    """Lists nested evenly. NumPy sees strings' places best when they are no strings."""
    try:
        shape, leaves = flat(value)
        if len(shape) > MOST_DIMENSIONS:
            raise ValueError(f"has more than {MOST_DIMENSIONS} dimensions")
        kinds = set(map(type, leaves))
        if kinds & {str, dict}:
            return objects([string_of(leaf) for leaf in leaves]).reshape(shape)
        return _numbers(kinds, leaves).reshape(shape)
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{name[:_SHOWN]}: {error}") from None


def _numbers(kinds: set[type], leaves: list[Any]) -> Array:
    """int64, else uint64, else float64, else bool: never one of which a value is another."""
    if type(None) in kinds:
        raise ValueError("holds null")
    if bool in kinds:
        if len(kinds) > 1:
            raise ValueError("holds truth values and others")
        return np.array(leaves, np.bool_)
    if list in kinds:
        raise ValueError("is ragged: not every list is as deep as the first")
    if kinds == {int}:
        for dtype in (np.int64, np.uint64):
            bounds = np.iinfo(dtype)
            if bounds.min <= min(leaves) and max(leaves) <= bounds.max:
                return np.array(leaves, dtype)
        raise ValueError("holds integers that neither int64 nor uint64 holds")
    if not all(_same_as_float(leaf) for leaf in leaves if type(leaf) is int):
        raise ValueError("holds an integer beside fractions, which float64 rounds")
    return np.array(leaves, np.float64)


def _same_as_float(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False
