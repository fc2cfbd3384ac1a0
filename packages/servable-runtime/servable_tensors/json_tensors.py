"""Conversion of the model server's JSON to arrays of the signature's types.

It rejects what the model server rejects. TensorFlow Serving takes a tensor's rank from the lists
around the first value, and rejects a body in which another value has a different depth. So the
brackets before the first value show the rank, if the body has the usual form; any other is
parsed.
Source: https://www.tensorflow.org/tfx/serving/api_rest, and GetDenseTensorShape and FillTensorProto in
https://github.com/tensorflow/serving/blob/master/tensorflow_serving/util/json_tensor.cc (2026-11-22)
"""

import base64
import binascii
import functools
import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from servable_tensors import TensorError, wire
from servable_tensors.signature import Signature, TensorSpec
from servable_tensors.tensors import (
    BFLOAT16,
    HALF,
    STRING,
    Array,
    build_object_array,
    find_array_dtype,
)

# Up to the first value: the signature's name may come first, as `with_signature` writes it.
_USUAL = re.compile(
    rb'\s*\{\s*(?:"signature_name"\s*:\s*"([^"]*)"\s*,\s*)?'
    rb'"(instances|inputs)"\s*:([\[\s]*)(\{?)'
)
_SIGNATURE_NAME = b'"signature_name"'
_PLAIN_NAME = re.compile(r"[\w./ -]+", re.ASCII)


class JsonRequest:
    """The body of a predict call. Raises `TensorError` for one that must be parsed and cannot be."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._usual = _USUAL.match(text)
        # Without a backslash, names aren't escaped. A signature's name after the values is rare, and a
        # body of numbers has no quote there, which is found faster than a name.
        if self._usual is not None and (
            b"\\" in text
            or text.find(_SIGNATURE_NAME, text.find(b'"', self._usual.end(2) + 1)) >= 0
        ):
            self._usual = None
        self._parsed = _parse_object(text) if self._usual is None else {}

    @property
    def signature(self) -> str | None:
        """Return the signature that the body names, or None if it names none."""
        if self._usual is not None:
            return (self._usual[1] or b"").decode(errors="surrogateescape") or None
        name = self._parsed.get("signature_name")
        return name if isinstance(name, str) and name else None

    def find_ranks(self, names: Collection[str]) -> dict[str, int]:
        """Return the rank of each of these inputs that the body contains.

        A value without a name is the only one's. The result for a body that the model server rejects
        before it checks tensors is undefined.
        """
        if self._usual is None or not all(map(_PLAIN_NAME.fullmatch, names)):
            return _find_ranks(self._parsed or _parse_object(self._text), names)
        depth = self._usual[3].count(b"[")
        if not self._usual[4]:
            return dict.fromkeys(names, depth)
        start = self._usual.start(4)
        values = ((name, _compile_pattern(name).search(self._text, start)) for name in names)
        return {name: depth + value[1].count(b"[") for name, value in values if value}


@functools.lru_cache(maxsize=256)
def _compile_pattern(name: str) -> re.Pattern[bytes]:
    return re.compile(rb'[{,]\s*"%s"\s*:([\[\s]*)' % re.escape(name.encode()))


def _parse_object(text: bytes) -> Mapping[str, Any]:
    try:
        # The first of two equal names counts, as RapidJSON's FindMember finds it.
        parsed = json.loads(
            text.decode(errors="surrogateescape"),
            object_pairs_hook=lambda pairs: dict(reversed(pairs)),
        )
    except (ValueError, RecursionError) as error:
        raise TensorError(f"the body is no JSON: {error}") from None
    return parsed if isinstance(parsed, dict) else {}


def _find_ranks(request: Mapping[str, Any], names: Collection[str]) -> dict[str, int]:
    rows = request.get("instances")
    if isinstance(rows, list) and rows and isinstance(rows[0], dict):
        return {name: 1 + _measure_depth(rows[0][name]) for name in names if name in rows[0]}
    value = request.get("inputs") if rows is None else rows
    if isinstance(value, dict):
        return {name: _measure_depth(value[name]) for name in names if name in value}
    return dict.fromkeys(names, _measure_depth(value))


def _measure_depth(value: object) -> int:
    depth = 0
    while isinstance(value, list):
        depth += 1
        value = value[0] if value else None
    return depth


try:
    from orjson import loads as _fast_loads  # where the code brings it along
except ImportError:
    _fast_loads = None

# Number of a type -> bits that hold a whole number exactly.
_FLOATS = {1: 24, 2: 53, BFLOAT16: 8, HALF: 11}


class JsonValueError(ValueError):
    """The error of a value that isn't a tensor of that type; `str()` says why."""


class _NamedFloat(float):
    """A NaN, Infinity or -Infinity by name. A number so large that it became infinite is a plain float."""


def parse(body: bytes) -> dict[str, Any]:
    """Return the object of a request. Raises `TensorError`, also for a key that an object has twice."""
    try:
        parsed = _load_json(body)
        if isinstance(parsed, dict) and _count_entries(parsed) != body.count(b":"):
            json.loads(body.decode(), object_pairs_hook=build_object)
    except (ValueError, RecursionError) as error:
        raise TensorError(f"the body is no JSON: {error!s:.200}") from None
    if not isinstance(parsed, dict) or ("instances" in parsed) == ("inputs" in parsed):
        raise TensorError('send an object with either "inputs" (columns) or "instances" (rows)')
    return parsed


def parse_response(body: bytes) -> Any:
    """Return the value of "outputs" in a model server's response. Raises `TensorError`."""
    try:
        answer = json.loads(body, parse_constant=_NamedFloat)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or "outputs" not in answer:
        raise TensorError("the model server's response isn't JSON with outputs")
    return answer["outputs"]


def _load_json(body: bytes) -> Any:
    if _fast_loads is not None:
        try:
            return _fast_loads(body)
        except ValueError:
            pass  # it knows no NaN and Infinity, as the model server does
    # As text: from bytes, json detects UTF-16 and accepts invalid UTF-8.
    return json.loads(body.decode(), parse_constant=_NamedFloat)


def _count_entries(request: dict[str, Any]) -> int:
    """Return the number of keys in the object and in its rows or columns, not in deeper ones.

    If the text has as many colons, no key came twice: each key has one, and only a key or a
    string has one.
    """
    count = len(request)
    for value in request.values():
        if isinstance(value, dict):
            count += len(value)
        elif isinstance(value, list):
            count += sum(len(row) for row in value if type(row) is dict)
    return count


def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs. Raises ValueError if a key appears twice."""
    members = dict(pairs)
    if len(members) != len(pairs):
        key = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {key!r:.60} appears twice in one object")
    return members


def build_arrays(request: Mapping[str, Any], signature: Signature) -> dict[str, Array]:
    """Return one array for each input of the signature, by rows or by columns. Raises `TensorError`."""
    columns = _read_columns(request, signature)
    arrays, problems = {}, []
    for name, value in columns.items():
        if name not in signature.inputs:
            problems.append(f"{name!r:.60}: given, and no input of the signature")
            continue
        spec = signature.inputs[name]
        try:
            arrays[name] = to_array(value, spec)
        except JsonValueError as bad:
            problems.append(f"{name}: {bad}; the signature wants {spec}")
    signature.raise_problems(problems)
    return arrays


def to_array(value: Any, spec: TensorSpec) -> Array:
    """Convert a value, or lists of values nested evenly, to an array. Raises `JsonValueError`."""
    shape, leaves = flatten(value)
    try:
        return _build_typed_array(leaves, spec.dtype).reshape(shape)
    except OverflowError:
        problem = f"holds a number that {wire.find_dtype_name(spec.dtype)} can't represent"
        raise JsonValueError(problem) from None


def _read_columns(request: Mapping[str, Any], signature: Signature) -> Mapping[str, Any]:
    if "inputs" in request:
        columns = request["inputs"]
        return columns if _is_named(columns) else {signature.find_only_input(): columns}
    rows = request["instances"]
    if not isinstance(rows, list) or not rows:
        raise TensorError('"instances" must be a list of at least one row')
    named = [_is_named(row) for row in rows]
    if not any(named):
        return {signature.find_only_input(): rows}
    if not all(named) or any(row.keys() != rows[0].keys() for row in rows):
        raise TensorError(f"every row must be an object with {signature.format_inputs()}")
    return {name: [row[name] for row in rows] for name in rows[0]}


def _is_named(value: Any) -> bool:
    """Return whether inputs are given by name; {"b64": "…"} is a value."""
    return isinstance(value, dict) and value.keys() != {"b64"}


def flatten(value: Any) -> tuple[list[int], list[Any]]:
    """Return the shape and the leaves of values nested evenly. Raises `JsonValueError`."""
    shape, first = [], value
    while isinstance(first, list):
        shape.append(len(first))
        if len(shape) > 32:
            raise JsonValueError("is nested in more than 32 lists; use fewer dimensions")
        first = first[0] if first else None
    level = [value]
    for size in shape:
        if not all(type(item) is list and len(item) == size for item in level):
            raise JsonValueError(f"is ragged: not every list has the {size} elements of the first")
        level = list(chain.from_iterable(level))
    if any(isinstance(leaf, list) for leaf in level):
        raise JsonValueError("is ragged: some lists are nested deeper than others")
    return shape, level


def _build_typed_array(leaves: Sequence[Any], number: int) -> Array:
    # type() and not isinstance(): a JSON true isn't a number, though bool is an int in Python.
    types = set(map(type, leaves))
    if number == STRING:
        return build_object_array([decode_string(leaf) for leaf in leaves])
    if number in _FLOATS:
        _require_types(leaves, types, {int, float, _NamedFloat}, "number")
        return _build_float_array(leaves, number, whole_numbers=int in types)
    stored = find_array_dtype(number)
    if stored.kind == "b":
        _require_types(leaves, types, {bool}, "true or false")
    elif stored.kind in "iu":
        _require_types(leaves, types, {int}, "whole number")
        bounds = np.iinfo(stored)
        if leaves and not bounds.min <= min(leaves) <= max(leaves) <= bounds.max:
            raise JsonValueError(f"contains {max(leaves, key=abs)!r:.40}, which is out of range")
    else:
        raise JsonValueError("has a type that JSON can't represent")
    return np.array(leaves, stored)


def _build_float_array(leaves: Sequence[Any], number: int, *, whole_numbers: bool) -> Array:
    if whole_numbers:
        # An integer that would silently change is rejected, unless it has more than 64 bits:
        # the model server's parser reads that as a decimal.
        exact = (1 << _FLOATS[number]) - 1
        for leaf in leaves:
            if type(leaf) is int and exact < abs(leaf) and -(1 << 63) <= leaf < 1 << 64:
                raise JsonValueError(f"holds {leaf}, which the type can't represent exactly")
    array = np.array(leaves, np.float64)
    narrow = find_array_dtype(number)
    with np.errstate(over="ignore"):
        numbers: Array = array.astype(narrow)
    infinite = np.isinf(numbers)
    if np.any(infinite) and any(
        type(leaves[at]) is not _NamedFloat for at in infinite.nonzero()[0].tolist()
    ):
        raise JsonValueError("holds a number that is too large")  # as 1e400
    return numbers


def _require_types(leaves: Sequence[Any], types: set[type], allowed: set[type], word: str) -> None:
    if types - allowed:
        wrong = next(leaf for leaf in leaves if type(leaf) not in allowed)
        raise JsonValueError(f"holds {_format_value(wrong)}, no {word}")


def decode_string(leaf: Any) -> bytes:
    """Return the bytes of a string, or of {"b64": "…"}. Raises `JsonValueError`."""
    try:
        if isinstance(leaf, str):
            return leaf.encode()
        if isinstance(leaf, dict) and isinstance(leaf.get("b64"), str) and len(leaf) == 1:
            return base64.b64decode(leaf["b64"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise JsonValueError(f"contains an unreadable string ({error})") from None
    raise JsonValueError(f"holds {_format_value(leaf)}, no string")


def _format_value(leaf: Any) -> str:
    # An object may be as deep as the whole body, and json.dumps then go deeper than Python.
    return "an object" if isinstance(leaf, dict) else json.dumps(leaf)[:40]
