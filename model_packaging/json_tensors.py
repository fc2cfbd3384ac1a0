"""JSON values of a predict request become TensorProtos of the signature's types, without NumPy."""

import base64
import struct
from collections.abc import Callable
from typing import Any

from model_packaging.saved_model.info import TensorSpec
from servable_tensors import wire

# How tensor_content holds one element; little-endian like every machine TensorFlow serves on.
_CODES = {
    "float32": "f",
    "float64": "d",
    "float16": "e",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "bool": "?",
}
_FLOATS = frozenset({"float32", "float64", "float16", "bfloat16"})


class JsonValueError(ValueError):
    """The value is no tensor of that type and shape; `str()` says why."""


def tensor(value: Any, spec: TensorSpec) -> Any:
    """The wire.TensorProto of nested lists (or one number) of the spec's type. Raises `JsonValueError`.

    Strings are text, or {"b64": …} for bytes, as in TensorFlow Serving's REST API.
    """
    shape = _shape(value)
    check_shape(shape, spec)
    flat: list[Any] = []
    _flatten(value, shape, flat)
    message = wire.TensorProto(dtype=_number(spec.dtype))
    for size in shape:
        message.tensor_shape.dim.add(size=size)
    if spec.dtype == "string":
        message.string_val.extend(_bytes(one) for one in flat)
    else:
        message.tensor_content = _content(flat, spec.dtype)
    return message


def check_shape(shape: list[int], spec: TensorSpec) -> None:
    """Raises `JsonValueError` where the signature does not take the shape."""
    if not _fits(shape, spec.shape):
        wanted = ["any" if size is None else size for size in spec.shape or ()]
        raise JsonValueError(f"has shape {shape}; the signature takes {_written(wanted)}")


def _shape(value: Any) -> list[int]:
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return shape


def _fits(shape: list[int], wanted: tuple[int | None, ...] | None) -> bool:
    if wanted is None:
        return True
    sizes = zip(shape, wanted, strict=False)
    return len(shape) == len(wanted) and all(w is None or given == w for given, w in sizes)


def _written(sizes: list[Any]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def _flatten(value: Any, shape: list[int], into: list[Any]) -> None:
    if not shape:
        if isinstance(value, list):
            raise JsonValueError("is nested deeper in one place than in another")
        into.append(value)
        return
    if not isinstance(value, list) or len(value) != shape[0]:
        given = len(value) if isinstance(value, list) else "no list"
        raise JsonValueError(f"is ragged: {given} where other rows have {shape[0]}")
    for one in value:
        _flatten(one, shape[1:], into)


def _number(dtype: str) -> int:
    for number in wire.DataType.values():
        if wire.dtype_name(number) == dtype and (dtype in {*_CODES, "string", "bfloat16"}):
            return number
    raise JsonValueError(f"is {dtype}, which JSON requests cannot carry")


def _content(flat: list[Any], dtype: str) -> bytes:
    allowed = _kinds(dtype)
    for one in flat:
        # A bool is an int to Python, and is none to TensorFlow Serving.
        if not isinstance(one, allowed) or (isinstance(one, bool) and dtype != "bool"):
            raise JsonValueError(f"holds {one!r:.40}; the signature takes {dtype}")
    pack: Callable[..., bytes] = struct.pack
    try:
        if dtype == "bfloat16":
            return b"".join(_bfloat16(one) for one in flat)
        return pack(f"<{len(flat)}{_CODES[dtype]}", *flat)
    except (struct.error, OverflowError) as error:
        raise JsonValueError(f"holds a number that is out of range for {dtype} ({error})") from None


def _kinds(dtype: str) -> tuple[type, ...]:
    if dtype == "bool":
        return (bool,)
    return (int, float) if dtype in _FLOATS else (int,)


def _bfloat16(number: float) -> bytes:
    """The upper half of a float32, rounded to nearest, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    if number != number:
        return b"\xc0\x7f"
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def _bytes(one: Any) -> bytes:
    if isinstance(one, str):
        try:
            return one.encode()
        except UnicodeEncodeError:
            raise JsonValueError(
                f"holds {one!a:.40}, half of a character; strings are UTF-8"
            ) from None
    if isinstance(one, dict) and set(one) == {"b64"} and isinstance(one["b64"], str):
        try:
            return base64.b64decode(one["b64"], validate=True)
        except ValueError as error:  # binascii.Error, and what is not ASCII
            raise JsonValueError(f'holds a "b64" that is no base64 ({error})') from None
    raise JsonValueError(f"holds {one!r:.40}; the signature takes string")
