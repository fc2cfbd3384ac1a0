"""Converts the JSON of TensorFlow Serving's REST API, by rows or by columns, to a PredictRequest.

It doesn't use NumPy, which servable_tensors/json_tensors.py needs: `servable check` reads golden
requests.

Source: https://www.tensorflow.org/tfx/serving/api_rest#predict_api
"""

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from model_packaging.saved_model.reading import (
    DEFAULT_SIGNATURE,
    SavedModelInfo,
    SignatureInfo,
    TensorInfo,
)
from servable_tensors import format_shape, is_shape_allowed, wire

# struct's code of one element in tensor_content, which is little-endian.
ELEMENT_CODES = {
    **{"float16": "e", "float32": "f", "float64": "d", "bool": "?"},
    **{"int8": "b", "int16": "h", "int32": "i", "int64": "q"},
    **{"uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q"},
}
_FLOATS = frozenset({"float32", "float64", "float16", "bfloat16"})


class RequestValueError(ValueError):
    """A value that isn't a tensor of that type and shape; `str()` gives the reason."""


def parse_json(text: bytes) -> Any:
    """Parse a JSON text. Raises `RequestValueError`."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise RequestValueError(f"is not JSON: {error}") from None
    except RecursionError:
        raise RequestValueError("is nested too deeply to be read") from None


def build_predict_request(
    request: Any, info: SavedModelInfo, *, model: str, rest: bool = False
) -> Any:
    """Convert {"instances": …} or {"inputs": …} to a wire.PredictRequest. Raises `RequestValueError`.

    `rest`: ignore columns of other names, as TensorFlow Serving's REST API does.
    """
    if not isinstance(request, dict) or ("instances" in request) == ("inputs" in request):
        problem = 'must be an object with either "inputs" (columns) or "instances" (rows)'
        raise RequestValueError(problem)
    name = request.get("signature_name") or DEFAULT_SIGNATURE
    specs = find_signature(name, info).inputs
    columns = _group_by_column(request, specs)
    given = format_names(columns)
    if rest and "inputs" in request:
        columns = {key: value for key, value in columns.items() if key in specs}
    if set(columns) != set(specs):
        raise RequestValueError(f"gives {given}; the signature expects {format_names(specs)}")
    message = wire.PredictRequest()
    message.model_spec.name = model
    message.model_spec.signature_name = name
    for key, value in sorted(columns.items()):
        try:
            message.inputs[key].CopyFrom(build_tensor(value, specs[key]))
        except RequestValueError as bad:
            raise RequestValueError(f"{key} {bad}") from None
    return message


def find_signature(name: Any, info: SavedModelInfo) -> SignatureInfo:
    """Return the signature that a request names. Raises `RequestValueError` if there is none."""
    if not isinstance(name, str) or name not in info.signatures:
        known = format_names(info.signatures)
        raise RequestValueError(f"names the signature {name!r}; the model has {known}")
    return info.signatures[name]


def _group_by_column(request: dict[str, Any], specs: Mapping[str, TensorInfo]) -> dict[str, Any]:
    if "inputs" in request:
        columns = request["inputs"]
        return columns if _is_named(columns) else name_only_input(specs, columns)
    rows = request["instances"]
    if not isinstance(rows, list) or not rows:
        raise RequestValueError('"instances" must be a list of at least one row')
    if not all(_is_named(row) for row in rows):
        return name_only_input(specs, rows)
    if any(set(row) != set(rows[0]) for row in rows):
        raise RequestValueError("has rows with different inputs")
    return {key: [row[key] for row in rows] for key in rows[0]}


def _is_named(value: Any) -> bool:
    """Return whether inputs are given by name; {"b64": …} is a value."""
    return isinstance(value, dict) and set(value) != {"b64"}


def name_only_input(specs: Mapping[str, TensorInfo], value: Any) -> dict[str, Any]:
    if len(specs) != 1:
        raise RequestValueError(f"names no inputs; the signature expects {format_names(specs)}")
    return dict.fromkeys(specs, value)


def format_names(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"


def build_tensor(value: Any, spec: TensorInfo) -> Any:
    """Convert nested lists, or one number, to a wire.TensorProto of the spec's type.

    Raises `RequestValueError`. Strings are text, or {"b64": …} for bytes, as in TensorFlow
    Serving's REST API.
    """
    shape, flat = flatten_lists(value)
    message = wire.TensorProto(dtype=_find_type_number(spec.dtype))
    for size in shape:
        message.tensor_shape.dim.add(size=size)
    if spec.dtype == "string":
        message.string_val.extend(_encode_string(item) for item in flat)
    else:
        message.tensor_content = _pack_content(flat, spec.dtype)
    check_shape(shape, spec)  # after its type, which says more of base64 for numbers
    return message


def check_shape(shape: Sequence[int], spec: TensorInfo) -> None:
    """Raise `RequestValueError` if the signature doesn't accept the shape."""
    if not is_shape_allowed(shape, spec.shape):
        given, expected = format_shape(shape), format_shape(spec.shape or ())
        raise RequestValueError(f"has shape {given}; the signature expects {expected}")


def flatten_lists(value: Any) -> tuple[list[int], list[Any]]:
    """Return the shape of evenly nested lists, and their values. Raises `RequestValueError`."""
    shape: list[int] = []
    items = [value]
    while items and isinstance(items[0], list):
        shape.append(len(items[0]))
        for item in items:
            size = len(item) if isinstance(item, list) else "no list"
            if size != shape[-1]:
                raise RequestValueError(f"is ragged: {size} where other rows have {shape[-1]}")
        items = list(chain.from_iterable(items))
    if any(isinstance(item, list) for item in items):
        raise RequestValueError("is nested deeper in one place than in another")
    return shape, items


def _find_type_number(dtype: str) -> int:
    if dtype in {*ELEMENT_CODES, "string", "bfloat16"}:
        return next(each for each in wire.DataType.values() if wire.find_dtype_name(each) == dtype)
    raise RequestValueError(f"is {dtype}, which JSON can't represent")


def _pack_content(flat: list[Any], dtype: str) -> bytes:
    allowed = (bool,) if dtype == "bool" else (int, float) if dtype in _FLOATS else (int,)
    for item in flat:
        # A bool is an int to Python, but not to TensorFlow Serving.
        if not isinstance(item, allowed) or (isinstance(item, bool) and dtype != "bool"):
            raise RequestValueError(f"holds {item!r:.40}; the signature expects {dtype}")
    try:
        if dtype == "bfloat16":
            return b"".join(_pack_bfloat16(item) for item in flat)
        return struct.pack(f"<{len(flat)}{ELEMENT_CODES[dtype]}", *flat)
    except (struct.error, OverflowError) as error:
        problem = f"contains a number that is out of range for {dtype} ({error})"
        raise RequestValueError(problem) from None


def _pack_bfloat16(number: float) -> bytes:
    """Return the upper half of a float32, rounded to nearest, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    if number != number:
        return b"\xc0\x7f"
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def _encode_string(item: Any) -> bytes:
    if isinstance(item, str):
        try:
            return item.encode()
        except UnicodeEncodeError:
            problem = f"holds {item!a:.40}, an unpaired surrogate; strings must be UTF-8"
            raise RequestValueError(problem) from None
    if isinstance(item, dict) and set(item) == {"b64"} and isinstance(item["b64"], str):
        try:
            # With white space, and with all of its padding or none, as Base64Unescape of Abseil takes it.
            written = "".join(item["b64"].split())
            text = written.rstrip("=")
            padding, whole = len(written) - len(text), -len(text) % 4
            if padding not in (0, whole):
                raise ValueError(f"it has {padding} of {whole} padding characters")
            return base64.b64decode(text + "=" * whole, validate=True)
        except ValueError as error:  # binascii.Error, and what is not ASCII
            raise RequestValueError(f'contains invalid base64 in "b64" ({error})') from None
    raise RequestValueError(f"holds {item!r:.40}; the signature expects string")
