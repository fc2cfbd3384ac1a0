"""Conversion between arrays and TensorProtos, for the handler and for its clients.

Strings are arrays of `object` that hold bytes; bfloat16, which NumPy lacks, is float32 here.
Source: tensorflow/core/framework/{tensor.proto,types.proto}
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servable_tensors import wire

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

# Number of a data type -> how tensor_content holds one element, and the field that holds it
# otherwise. Little-endian, like every processor that TensorFlow serves on.
_STORED = {
    1: ("<f4", "float_val"),
    2: ("<f8", "double_val"),
    3: ("<i4", "int_val"),
    4: ("<u1", "int_val"),
    5: ("<i2", "int_val"),
    6: ("<i1", "int_val"),
    8: ("<c8", "scomplex_val"),
    9: ("<i8", "int64_val"),
    10: ("?", "bool_val"),
    11: ("<i1", "int_val"),
    12: ("<u1", "int_val"),
    13: ("<i4", "int_val"),
    14: ("<u2", "half_val"),
    15: ("<i2", "int_val"),
    16: ("<u2", "int_val"),
    17: ("<u2", "int_val"),
    18: ("<c16", "dcomplex_val"),
    19: ("<f2", "half_val"),
    22: ("<u4", "uint32_val"),
    23: ("<u8", "uint64_val"),
}
STRING, BOOL, BFLOAT16, HALF = 7, 10, 14, 19
_FLOATS_AT_ONCE = 1 << 16
MOST_TENSOR_BYTES = 64 << 20  # of one tensor in a request
# What the fields hold that are wider than the types whose values they carry.
_FIELD_BOUNDS = {"half_val": (0, 0xFFFF), "bool_val": (0, 1), "uint32_val": (0, 0xFFFFFFFF)}
_NUMBERS = {
    np.dtype(stored): number
    for number, (stored, _) in reversed(_STORED.items())
    if number not in (11, 12, 13, BFLOAT16, 15, 16)  # quantized ones look like plain integers
}


class UnknownTypeError(ValueError):
    """The error of an array or message that isn't a tensor of that type; `str()` says why."""


class InexactCastError(ValueError):
    """The error of a value that would change in a cast; `str()` says which."""


def find_array_dtype(number: int) -> np.dtype[Any]:
    """Return the NumPy type of arrays for a data type's number. Raises `UnknownTypeError`."""
    if number == STRING:
        return np.dtype(object)
    if number == BFLOAT16:
        return np.dtype("<f4")
    if number not in _STORED:
        problem = f"{wire.find_dtype_name(number)} isn't a type that an array can hold"
        raise UnknownTypeError(problem)
    return np.dtype(_STORED[number][0])


def find_type_number(dtype: np.dtype[Any]) -> int:
    """Return the number of the data type that holds arrays of this type. Raises `UnknownTypeError`."""
    if dtype.kind in "OSU":
        return STRING
    number = _NUMBERS.get(dtype) or _NUMBERS.get(dtype.newbyteorder("<"))
    if number is None:
        raise UnknownTypeError(f"{dtype} isn't a TensorFlow type")
    return number


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Return whether the type is bfloat16 of the package ml_dtypes."""
    return dtype.kind == "V" and dtype.name == "bfloat16"  # the name takes longest


def find_element_bytes(number: int) -> int | None:
    """Return the bytes of one element in memory; None for a type that no request may contain."""
    if number == STRING:
        return 24  # sizeof(tsl::tstring), without what it points to
    return np.dtype(_STORED[number][0]).itemsize if number in _STORED else None


def count_elements(sizes: Iterable[int], most: int) -> int | None:
    """Count the elements of a shape; return None if its other sizes multiply to over `most`.

    Sizes of 0 are left out of that product, because a model may reduce over them: [2**40, 0] then
    becomes [2**40].
    """
    count, empty = 1, False
    for size in sizes:
        empty = empty or not size
        count *= size or 1
        # Before the product is a number of thousands of digits.
        if count > most:
            return None
    return 0 if empty else count


def find_value_field(number: int) -> str:
    """Return the repeated field for the values of this type if they are not in tensor_content."""
    return "string_val" if number == STRING else _STORED[number][1]


def find_value_bounds(number: int) -> tuple[int, int]:
    """Return the least and the greatest integer for a value of this type in its field.

    TensorFlow cuts others to the type's width: 300 in a uint8 is 44, and -1 in a float16 is NaN.
    """
    field = find_value_field(number)
    if field == "int_val":
        bounds = np.iinfo(_STORED[number][0])
        return int(bounds.min), int(bounds.max)
    return _FIELD_BOUNDS.get(field, (-(1 << 63), (1 << 63) - 1))


def to_proto(array: Array, number: int | None = None) -> Any:
    """Return a wire.TensorProto of the type `number` or the array's own, without a check of ranges.

    Raises `UnknownTypeError` for an array that the type cannot hold.
    """
    message = wire.TensorProto()
    fill_proto(message, array, number)
    return message


def fill_proto(message: Any, array: Array, number: int | None = None) -> None:
    """Fill an existing, empty message, as `to_proto` does; this saves one copy of the values."""
    number = find_type_number(array.dtype) if number is None else number
    message.dtype = number
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    if number == STRING:
        message.string_val.extend(encode_string(value) for value in array.ravel().tolist())
    elif number == BFLOAT16:
        message.tensor_content = _encode_bfloat16(array).tobytes()
    elif array.dtype.kind in "OSU":
        raise UnknownTypeError(f"the array contains strings, not {wire.find_dtype_name(number)}")
    else:
        message.tensor_content = array.astype(find_array_dtype(number), copy=False).tobytes()


def to_array(message: Any) -> Array:
    """Convert a wire.TensorProto to an array, read-only if it can share the message's bytes.

    Both encodings are read. If there are fewer values than the shape needs, the last one is
    repeated, as in TensorFlow. Raises `UnknownTypeError`.
    """
    number = message.dtype
    find_array_dtype(number)  # raises for an unknown type
    shape = tuple(dim.size for dim in message.tensor_shape.dim)
    count = math.prod(shape)
    if message.tensor_shape.unknown_rank or min(shape, default=0) < 0:
        raise UnknownTypeError("the shape is not fully known")
    if number != STRING and message.tensor_content:
        stored = np.dtype(_STORED[number][0])
        if len(message.tensor_content) != count * stored.itemsize:
            given = f"{len(message.tensor_content)} bytes for {count} elements"
            raise UnknownTypeError(f"{given} of {stored.itemsize} bytes each")
        values: Array = np.frombuffer(message.tensor_content, stored)
    else:
        values = _fit_values(_read_values(message, number), count)
    if number == BFLOAT16:
        values = (values.astype("<u4") << 16).view("<f4")
    try:
        return values.reshape(shape)
    except ValueError as error:  # as for more dimensions than NumPy has
        problem = f"cannot create an array of shape {list(shape)!s:.80} ({error})"
        raise UnknownTypeError(problem) from None


def _read_values(message: Any, number: int) -> Array:
    written = getattr(message, find_value_field(number))
    if number == STRING:
        return build_object_array(list(written))
    stored = _STORED[number][0]
    if stored.startswith("<c"):
        # Real and imaginary parts in turn.
        parts = np.array(written, f"<f{int(stored[2:]) // 2}")
        if len(parts) % 2:
            problem = f"{len(parts)} parts of complex numbers, which must be an even number"
            raise UnknownTypeError(problem)
        return parts.view(stored)
    if find_value_field(number) not in ("int_val", "half_val"):
        return np.array(written, stored)
    # Fields made for 32 bits, whatever the type's own width.
    wide, (least, greatest) = np.array(written, "<i4"), find_value_bounds(number)
    if len(wide) and not least <= wide.min() <= wide.max() <= greatest:
        wrong = wide.min() if wide.min() < least else wide.max()
        dtype = wire.find_dtype_name(number)
        raise UnknownTypeError(f"{wrong} in {find_value_field(number)} is out of range for {dtype}")
    # half_val holds the sixteen bits.
    return wide.astype("<u2").view(stored) if number in (BFLOAT16, HALF) else wide.astype(stored)


def _fit_values(values: Array, count: int) -> Array:
    if len(values) == count:
        return values
    if len(values) > count:
        return values[:count]
    last = values[-1] if len(values) else (b"" if values.dtype == object else 0)
    padded = np.empty(count, values.dtype)
    padded[: len(values)] = values
    padded[len(values) :] = last
    return padded


def build_object_array(elements: Sequence[Any]) -> Array:
    """Return a one-dimensional array of `object` with the elements unchanged, as strings are held."""
    array = np.empty(len(elements), object)
    array[:] = elements
    return array


def encode_string(element: Any) -> bytes:
    """Return an element of a tensor of strings as bytes. Raises `UnknownTypeError`."""
    if isinstance(element, bytes):
        return element
    if not isinstance(element, str):
        raise UnknownTypeError(f"{type(element).__name__} isn't a string; use str or bytes")
    try:
        return element.encode()
    except UnicodeEncodeError:
        problem = "a string contains a lone surrogate, which UTF-8 can't encode"
        raise UnknownTypeError(problem) from None


def _encode_bfloat16(array: Array) -> Array:
    """Return the upper half of each float32, rounded to nearest, ties to even."""
    if array.dtype.kind == "V" and array.dtype.itemsize == 2:
        return array.view("<u2")  # ml_dtypes' bfloat16, as .npy files hold it
    floats = np.ascontiguousarray(array, "<f4").reshape(-1)
    result = np.empty(len(floats), "<u2")
    # In pieces, because intermediate results are many times as large as the result.
    for at in range(0, len(floats), _FLOATS_AT_ONCE):
        result[at : at + _FLOATS_AT_ONCE] = _round_to_bfloat16(floats[at : at + _FLOATS_AT_ONCE])
    return result.reshape(array.shape)


def _round_to_bfloat16(floats: Array) -> Array:
    bits = floats.view("<u4").astype("<u8")
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    too_large = (rounded & 0x7FFF == 0x7F80) & np.isfinite(floats)
    if np.any(too_large):
        raise UnknownTypeError(f"{floats[too_large][0]:.9g} exceeds bfloat16's range")
    return np.where(np.isnan(floats), 0x7FC0, rounded).astype("<u2")


def cast_exactly(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return the array as the type `dtype`; unchanged if no cast between the two is allowed.

    Unlike NumPy's casts, integers and truth values are cast only if the type holds each exactly.
    Floats and complex numbers are rounded to the nearest, as the numbers of a JSON text are. A
    float never becomes an integer, a complex number a float, a number a truth value. Raises
    `InexactCastError` for an integer that does not fit, and for a float that would become infinite.
    """
    kind, kinds = array.dtype.kind, "fc"
    if array.dtype == dtype or kind not in "biufc" or dtype.kind not in "iufc":
        return array
    if kind in kinds:
        return _cast_rounded(array, dtype) if kinds.find(kind) <= kinds.find(dtype.kind) else array
    if kind == "b":
        return array.astype(dtype)
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        _require_none(array, (array < bounds.min) | (array > bounds.max), dtype)
        return array.astype(dtype)
    result: Array = _cast_rounded(array, dtype)
    # A float beyond the greatest integer cannot be turned back and compared.
    parts, top = result.real, float(int(np.iinfo(array.dtype).max) + 1)
    with np.errstate(invalid="ignore", over="ignore"):
        _require_none(array, (parts >= top) | (parts.astype(array.dtype) != array), dtype)
    return result


def _cast_rounded(array: Array, dtype: np.dtype[Any]) -> Array:
    with np.errstate(over="ignore"):
        result: Array = array.astype(dtype)
    _require_none(array, np.isfinite(array) & ~np.isfinite(result), dtype)
    return result


def _require_none(array: Array, wrong: Array, dtype: np.dtype[Any]) -> None:
    if np.any(wrong):
        value = array[wrong].flat[0].item()
        raise InexactCastError(f"holds {value!r:.40}, which {dtype} can't represent")
