"""NumPy's .npy as body: one tensor, its bytes as they lie in memory.

Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import functools
import io
import math
import sys
from tokenize import TokenError
from typing import Any

import numpy as np

from servable_client.arrays import UNNAMED_OUTPUT, Array, Arrays
from servable_client.errors import BadInputError
from servable_client.selection import Selection
from servable_tensors import tensors

_MAGIC = b"\x93NUMPY"
_VERSIONS = (b"\x01\x00", b"\x02\x00", b"\x03\x00")


def encode(arrays: Arrays, selection: Selection) -> bytes:
    """Raises `BadInputError` for several inputs and for what the format cuts or pickles."""
    if len(arrays) != 1:
        names = ", ".join(arrays)
        raise BadInputError(
            f'a .npy holds one array and {names} are given; leave format out, or "npz"'
        )
    ((name, array),) = arrays.items()
    return file_of(name, array)


def decode(body: bytes) -> dict[str, Array]:
    return {UNNAMED_OUTPUT: array_of(body)}


def file_of(name: str, array: Array) -> bytes:
    """The array as a file. Raises `BadInputError`."""
    array = _without_objects(name, array)
    if array.dtype.kind != "S" and array.dtype.name != "bfloat16":
        try:
            tensors.number_of(array.dtype)
        except tensors.UnknownTypeError as bad:
            raise BadInputError(f"{name or 'the input'}: {bad}") from None
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    flat = np.ascontiguousarray(array.T if fortran else array).reshape(-1)
    # One copy of the numbers: from where they lie into the body.
    return b"".join(
        (_header(_written(array.dtype), fortran, array.shape), flat.view(np.uint8).data)
    )


def array_of(body: bytes) -> Array:
    """The array in a file, sharing its memory. Raises `ValueError`."""
    if not body.startswith(_MAGIC) or len(body) < 12 or body[6:8] not in _VERSIONS:
        raise ValueError("it does not begin as a .npy file of version 1, 2 or 3")
    # Version 1 has two bytes of length, 2 and 3 have four.
    start = 10 if body[6] == 1 else 12
    end = start + int.from_bytes(body[8:start], "little")
    dtype, fortran, shape = _read_header(body[:end])
    count = math.prod(shape)
    if min(shape, default=0) < 0 or not dtype.itemsize:
        raise ValueError(f"{dtype} {list(shape)} is no array")
    if len(body) - end != count * dtype.itemsize:
        raise ValueError(f"{len(body) - end} bytes for {dtype} {list(shape)}")
    flat: Array = np.frombuffer(body, dtype, count, end) if count else np.empty(0, dtype)
    if dtype.kind == "U" and (flat.view(f"{dtype.byteorder}u4") > sys.maxunicode).any():
        raise ValueError("it holds text that is no Unicode")  # NumPy would build it all the same
    if dtype.kind in "SU":
        texts = np.empty(count, object)
        texts[:] = [one if isinstance(one, bytes) else one.encode() for one in flat.tolist()]
        flat = texts
    return flat.reshape(shape, order="F" if fortran else "C")


def _written(dtype: np.dtype[Any]) -> str:
    # bfloat16, which NumPy lacks, is two bytes without a name in these files. Other types of the
    # kind V, ml_dtypes' float8 among them, are refused before they come here.
    return "<V2" if dtype.kind == "V" else dtype.str


@functools.lru_cache(maxsize=1024)
def _header(descr: str, fortran: bool, shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    said = {"descr": descr, "fortran_order": fortran, "shape": shape}
    np.lib.format.write_array_header_1_0(file, said)
    return file.getvalue()


@functools.lru_cache(maxsize=256)
def _read_header(header: bytes) -> tuple[np.dtype[Any], bool, tuple[int, ...]]:
    # One model gives one shape again and again: its header is understood once.
    file = io.BytesIO(header)
    version = np.lib.format.read_magic(file)
    read = (
        np.lib.format.read_array_header_1_0
        if version[0] == 1
        else np.lib.format.read_array_header_2_0
    )
    try:
        shape, fortran, dtype = read(file)
    except (
        SyntaxError,
        TypeError,
        TokenError,
        OverflowError,
        RecursionError,
        MemoryError,
    ) as error:
        raise ValueError(f"its header is not understood ({type(error).__name__})") from None
    if dtype.hasobject or dtype.fields or dtype.subdtype:
        raise ValueError(f"it holds {dtype}, which is no tensor; nothing is unpickled")
    return dtype, fortran, shape


def _without_objects(name: str, array: Array) -> Array:
    if array.dtype.kind != "O":
        return array
    texts = array.ravel().tolist()
    if any(one.endswith(b"\0") for one in texts):
        raise BadInputError(
            f"{name or 'the input'}: NumPy's files cut zeros at a string's end; "
            'leave format out, or "protobuf"'
        )
    return array.astype(f"S{max(map(len, texts), default=0) or 1}")
