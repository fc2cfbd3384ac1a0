"""The model server's JSON, by columns. It carries no types: what comes back are int64,
float64, bool and strings.

Source: https://www.tensorflow.org/tfx/serving/api_rest
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from servable_client.arrays import UNNAMED, UNNAMED_OUTPUT, Array, Arrays
from servable_client.errors import BadInput
from servable_client.selection import Selection

# A float32 is written with 17 digits as a float64; one that was rounded needs no more than these.
_DECIMALS = (4, 7)


def encode(arrays: Arrays, selection: Selection) -> bytes:
    """Raises `BadInput` for complex numbers, which JSON does not hold."""
    request: dict[str, Any] = {}
    if selection.signature:
        request["signature_name"] = selection.signature
    values = {name: _values(name, array) for name, array in arrays.items()}
    request["inputs"] = values.get(UNNAMED, values)
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()


def decode(body: bytes) -> dict[str, Array]:
    """Columns ("outputs") or rows ("predictions"). Raises `ValueError`."""
    try:
        answer = json.loads(body)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if isinstance(answer, dict) and "outputs" in answer:
        found = answer["outputs"]
    elif isinstance(answer, dict) and isinstance(answer.get("predictions"), list):
        found = _columns(answer["predictions"])
    else:
        raise ValueError('it has neither "outputs" nor "predictions"')
    if not isinstance(found, dict) or found.keys() == {"b64"}:
        found = {UNNAMED_OUTPUT: found}
    return columns(found)


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
    if kind == "O":
        texts = np.empty(array.size, object)
        texts[:] = [_text(one) for one in array.ravel().tolist()]
        return texts.reshape(array.shape).tolist()
    if kind == "f" and array.dtype.itemsize < 8:
        return _short(array).tolist()
    if kind not in "biuf":
        raise BadInput(f"{name or 'the input'}: JSON holds no {array.dtype}; leave format out")
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
        shape, leaves = _flat(value)
        if not any(isinstance(leaf, str | dict) for leaf in leaves):
            array = np.array(value)
            if array.dtype == object:
                raise ValueError("holds null")
            return array
        texts = np.empty(len(leaves), object)
        texts[:] = [_bytes(leaf) for leaf in leaves]
        return texts.reshape(shape)
    except (ValueError, AttributeError, binascii.Error) as error:
        raise ValueError(f"{name}: {error}") from None


def _flat(value: Any) -> tuple[list[int], list[Any]]:
    shape, level = [], [value]
    while level and isinstance(level[0], list):
        size = len(level[0])
        if not all(isinstance(one, list) and len(one) == size for one in level):
            raise ValueError("is ragged: not every list is as long as the first")
        shape.append(size)
        level = [leaf for one in level for leaf in one]
    return shape, level


def _bytes(leaf: Any) -> bytes:
    if isinstance(leaf, str):
        return leaf.encode(errors="surrogateescape")
    if isinstance(leaf, dict) and isinstance(leaf.get("b64"), str):
        return base64.b64decode(leaf["b64"], validate=True)
    raise ValueError("holds strings and others")
