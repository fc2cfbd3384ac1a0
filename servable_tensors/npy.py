"""NumPy's file format .npy as a body: one tensor.

No pickle is ever read. A header is believed only as far as the bytes behind it go.
Source: https://numpy.org/doc/1.26/reference/generated/numpy.lib.format.html
"""

import ast
import functools
import io
import math
from typing import Any, Literal, NamedTuple

import numpy as np

from servable_tensors.errors import TensorError
from servable_tensors.seen_forms import SeenForms
from servable_tensors.tensors import MOST_TENSOR_BYTES, Array, elements

MOST_HEADER_BYTES = 10_000  # numpy.lib.format reads no longer one either, by default
# Each is an object of Python's, of 50 bytes and more, whatever it takes in the file.
MOST_STRINGS = 1 << 19
_STRINGS_AT_ONCE = 4096
_MAGIC = b"\x93NUMPY"


class _Layout(NamedTuple):
    """What a header says of the bytes behind it, which are as many."""

    dtype: np.dtype[Any]
    order: Literal["C", "F"]
    shape: tuple[int, ...]
    start: int


_SEEN: SeenForms[_Layout] = SeenForms()


def from_npy(body: bytes, name: str = "the body") -> Array:
    """One array, sharing the body's memory. Raises `TensorError`; `name` begins its message."""
    try:
        dtype, order, shape, start = _SEEN.get(body) or _layout(body)
        count = math.prod(shape)
        flat = np.frombuffer(body, dtype, count, start) if count else np.empty(0, dtype)
        return _plain(flat).reshape(shape, order=order)
    except ValueError as error:
        raise TensorError(f"{name}: no .npy of one tensor: {error}") from None


def content_of(body: bytes) -> tuple[np.dtype[Any], int] | None:
    """Type and place of the numbers of a body that `from_npy` has read, where they are in C's order."""
    layout = _SEEN.get(body)
    if layout is None or layout.order == "F":
        return None
    return layout.dtype, layout.start


def to_npy(array: Array) -> bytes:
    """The array as a .npy file. Raises `TensorError` for strings that it would cut."""
    plain = _writable(array)
    return header_of(plain.dtype, plain.shape) + plain.tobytes()


def _layout(body: bytes) -> _Layout:
    dtype, fortran, shape, start = _header(body)
    size = math.prod(shape) * dtype.itemsize
    if size != len(body) - start:
        raise ValueError(
            f"the header says {dtype} {list(shape)}, {size} bytes; {len(body) - start} follow"
        )
    if not size and elements(shape, MOST_TENSOR_BYTES // max(dtype.itemsize, 1)) is None:
        raise ValueError(f"the shape {list(shape)} is none of an empty tensor: it is too large")
    layout = _Layout(dtype, "F" if fortran else "C", shape, start)
    _SEEN.keep(body, [(start, len(body))], layout)
    return layout


def _header(body: bytes) -> tuple[np.dtype[np.generic], bool, tuple[int, ...], int]:
    if not body.startswith(_MAGIC) or len(body) < 10:
        raise ValueError("it does not begin as one")
    # Version 1 has two bytes of length, 2 and 3 have four.
    start = 10 if body[6] == 1 else 12
    length = int.from_bytes(body[8:start], "little")
    if (
        body[6] not in (1, 2, 3)
        or body[7]
        or length > MOST_HEADER_BYTES
        or len(body) < start + length
    ):
        raise ValueError(f"version {body[6]}.{body[7]} with a header of {length} bytes is not read")
    encoding = "utf-8" if body[6] == 3 else "latin1"
    return *_fields(body[start : start + length].decode(encoding)), start + length


def _fields(header: str) -> tuple[np.dtype[np.generic], bool, tuple[int, ...]]:
    if header.count("(") > 1 or header.count("{") > 1 or "[" in header:
        raise ValueError("it holds records")  # and no deep nesting reaches Python's parser
    try:
        said = ast.literal_eval(header)
        descr, fortran, shape = said["descr"], said["fortran_order"], said["shape"]
        if not isinstance(descr, str) or not isinstance(shape, tuple):
            raise ValueError("it holds no plain numbers or strings")
        if len(said) != 3 or not isinstance(fortran, bool):
            raise ValueError("the header holds more than NumPy writes")
        dtype = np.dtype(descr)
    except (SyntaxError, TypeError, KeyError, MemoryError, RecursionError) as error:
        raise ValueError(f"the header is not understood ({type(error).__name__})") from None
    if dtype.hasobject or dtype.fields or dtype.subdtype or dtype.kind not in "biufcSUV":
        raise ValueError(f"it holds {dtype}, which is no tensor")
    if not all(type(size) is int and 0 <= size < 1 << 48 for size in shape) or len(shape) > 32:
        raise ValueError(f"the shape {shape!r:.80} is none")
    return dtype, fortran, shape


@functools.lru_cache(maxsize=256)
def header_of(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """What stands before an array's bytes in C's order."""
    # Many answers have one shape; NumPy's writer takes longer than all else about a small one.
    said = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, said)
    return file.getvalue()


def _plain(flat: Array) -> Array:
    """Strings as bytes, truth values as 0 and 1: what the file holds may be neither."""
    if flat.dtype.kind == "b":
        return flat.view("u1").astype(np.bool_)
    if flat.dtype.kind not in "SU":
        return flat
    if len(flat) > MOST_STRINGS:
        raise ValueError(
            f"it holds {len(flat)} strings; at most {MOST_STRINGS} are allowed: send less in one "
            "request, or application/x-protobuf"
        )
    texts = np.empty(len(flat), object)
    # Not all at once: Python's strings of what NumPy stores as UTF-32 are several times its size.
    for start in range(0, len(flat), _STRINGS_AT_ONCE):
        piece = flat[start : start + _STRINGS_AT_ONCE]
        _check_letters(piece)
        texts[start : start + _STRINGS_AT_ONCE] = [
            one if isinstance(one, bytes) else one.encode() for one in piece.tolist()
        ]
    return texts


def _check_letters(strings: Array) -> None:
    if strings.dtype.kind == "U" and strings.size and strings.dtype.itemsize:
        letters = strings.view(strings.dtype.str[0] + "u4")
        if letters.max() > 0x10FFFF:  # beyond Unicode: a SystemError, were it made a string
            raise ValueError("it holds letters that are none")


def _writable(array: Array) -> Array:
    if array.dtype != object:
        return array
    longest = max((len(one) for one in array.ravel().tolist()), default=0)
    fixed: Array = array.astype(f"S{max(longest, 1)}")
    if any(one.endswith(b"\0") for one in array.ravel().tolist()):
        raise TensorError(
            "NumPy's files cut zeros at a string's end; accept application/json or protobuf"
        )
    return fixed
