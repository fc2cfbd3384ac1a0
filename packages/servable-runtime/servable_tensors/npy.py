"""NumPy's files as bodies: .npy holds one tensor, .npz tensors by name.

Pickles are never read. A header is trusted only as far as the bytes after it go, an archive
only as far as it unpacks within the bound.
Source: https://numpy.org/doc/1.26/reference/generated/numpy.lib.format.html, and
https://numpy.org/doc/1.26/reference/generated/numpy.savez.html
"""

import ast
import functools
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection
from typing import Any, Literal, NamedTuple

import numpy as np

from servable_tensors import TensorError, TensorTooLargeError
from servable_tensors.predict_messages import find_places
from servable_tensors.signature import Signature
from servable_tensors.tensor_walk import LayoutCache
from servable_tensors.tensors import (
    BFLOAT16,
    MOST_TENSOR_BYTES,
    Array,
    Arrays,
    UnknownTypeError,
    count_elements,
    find_array_dtype,
    find_type_number,
    is_bfloat16,
)

MOST_HEADER_BYTES = 10_000  # numpy.lib.format reads no longer one either, by default
# Of a request. Each is an object of Python's, of 50 bytes and more, whatever it takes in the file.
MOST_STRINGS = 1 << 19
MOST_UNPACKED_BYTES = 64 << 20
"""SageMaker's responses have at most 25 MB; a damaged or hostile one may unpack to any size."""
MOST_MEMBERS = 4096
_STRINGS_AT_ONCE = 4096
_MAGIC = b"\x93NUMPY"


class _Layout(NamedTuple):
    """The layout of an array by its header; the body is checked to have as many bytes."""

    dtype: np.dtype[Any]
    order: Literal["C", "F"]
    shape: tuple[int, ...]
    start: int


_SEEN: LayoutCache[_Layout] = LayoutCache()


def from_npy(
    body: bytes, name: str = "the body", *, most_strings: int | None = MOST_STRINGS
) -> Array:
    """Return the array of a .npy body. Raises `TensorError`; `name` begins its message.

    Arrays of numbers share the body's memory. `most_strings`: the maximum number of strings; None
    for any number.
    """
    try:
        dtype, order, shape, start = _SEEN.get(body) or _read_layout(body)
        count = math.prod(shape)
        flat = np.frombuffer(body, dtype, count, start) if count else np.empty(0, dtype)
        return _convert_elements(flat, most_strings).reshape(shape, order=order)
    except ValueError as error:
        raise TensorError(f"{name}: no .npy of one tensor: {error}") from None


def _read_layout(body: bytes) -> _Layout:
    if not body.startswith(_MAGIC) or len(body) < 10:
        raise ValueError("it does not begin as one")
    # Version 1 has two bytes of length, 2 and 3 have four.
    at = 10 if body[6] == 1 else 12
    length = int.from_bytes(body[8:at], "little")
    start = at + length
    if body[6] not in (1, 2, 3) or body[7] or length > MOST_HEADER_BYTES or len(body) < start:
        problem = f"version {body[6]}.{body[7]} with a header of {length} bytes isn't supported"
        raise ValueError(problem)
    encoding = "utf-8" if body[6] == 3 else "latin1"
    dtype, fortran, shape = _parse_header(body[at:start].decode(encoding))
    size = math.prod(shape) * dtype.itemsize
    if size != len(body) - start:
        problem = f"the header says {dtype} {list(shape)}, {size} bytes; {len(body) - start} follow"
        raise ValueError(problem)
    if not size and count_elements(shape, MOST_TENSOR_BYTES // max(dtype.itemsize, 1)) is None:
        raise ValueError(f"the shape {list(shape)} is too large, although the tensor is empty")
    layout = _Layout(dtype, "F" if fortran else "C", shape, start)
    _SEEN.keep(body, [(start, len(body))], layout)
    return layout


def _parse_header(header: str) -> tuple[np.dtype[np.generic], bool, tuple[int, ...]]:
    if header.count("(") > 1 or header.count("{") > 1 or "[" in header:
        raise ValueError("it contains records")  # and no deep nesting reaches Python's parser
    try:
        literal = ast.literal_eval(header)
        descr, fortran, shape = literal["descr"], literal["fortran_order"], literal["shape"]
        if not isinstance(descr, str) or not isinstance(shape, tuple):
            raise ValueError("its type isn't numbers or strings")
        if len(literal) != 3 or not isinstance(fortran, bool):
            raise ValueError("the header contains more than NumPy writes")
        dtype = np.dtype(descr)
    except (SyntaxError, TypeError, KeyError, MemoryError, RecursionError) as error:
        raise ValueError(f"the header can't be parsed ({type(error).__name__})") from None
    if dtype.hasobject or dtype.fields or dtype.subdtype or dtype.kind not in "biufcSUV":
        raise ValueError(f"it holds {dtype}, which is no tensor")
    if not all(type(size) is int and 0 <= size < 1 << 48 for size in shape) or len(shape) > 32:
        raise ValueError(f"the shape {shape!r:.80} is invalid")
    return dtype, fortran, shape


def _convert_elements(flat: Array, most_strings: int | None) -> Array:
    """Return strings as bytes, and truth values as 0 and 1: the file may hold others."""
    if flat.dtype.kind == "b":
        return flat.view("u1").astype(np.bool_)
    if flat.dtype.kind not in "SU":
        return flat
    if most_strings is not None and len(flat) > most_strings:
        raise ValueError(
            f"it contains {len(flat)} strings; the maximum is {most_strings}; send fewer in one "
            "request, or use application/x-protobuf"
        )
    texts = np.empty(len(flat), object)
    # Not all at once: Python's strings of what NumPy stores as UTF-32 are several times its size.
    for start in range(0, len(flat), _STRINGS_AT_ONCE):
        piece = flat[start : start + _STRINGS_AT_ONCE]
        if piece.dtype.kind == "U" and piece.size and piece.dtype.itemsize:
            letters = piece.view(piece.dtype.str[0] + "u4")
            if letters.max() > 0x10FFFF:  # beyond Unicode: a SystemError, were it made a string
                raise ValueError("it holds text that isn't valid Unicode")
        texts[start : start + _STRINGS_AT_ONCE] = [
            value if isinstance(value, bytes) else value.encode() for value in piece.tolist()
        ]
    return texts


def to_npy(array: Array, name: str = "the tensor") -> bytes:
    """Return the array as a .npy file.

    Raises `TensorError` for strings that it would cut, and for types that TensorFlow doesn't
    have; `name` begins its message.
    """
    if array.dtype.kind == "O":
        texts = array.ravel().tolist()
        if any(text.endswith(b"\0") for text in texts):
            problem = f"{name}: NumPy files drop zeros at a string's end"
            raise TensorError(f"{problem}; use application/json or protobuf")
        array = array.astype(f"S{max(map(len, texts), default=0) or 1}")
    elif array.dtype.kind != "S" and not is_bfloat16(array.dtype):
        try:
            find_type_number(array.dtype)
        except UnknownTypeError as bad:
            raise TensorError(f"{name}: {bad}") from None
    fortran = not array.flags.c_contiguous and array.flags.f_contiguous
    content = np.ascontiguousarray(array.T if fortran else array)
    if content.dtype.kind == "V":
        content = content.view("<u2")  # ml_dtypes' bfloat16 has no buffer
    # One copy of the numbers: from where they lie into the body.
    return b"".join((build_header(array.dtype, array.shape, fortran), content.data))


@functools.lru_cache(maxsize=256)
def build_header(dtype: np.dtype[Any], shape: tuple[int, ...], fortran: bool = False) -> bytes:
    """Return the header (magic, version, description) that precedes an array's bytes."""
    # Many arrays have one shape; NumPy's writer takes longer than all else about a small one.
    # bfloat16, which NumPy lacks, is two bytes without a name in these files.
    descr = "<V2" if dtype.kind == "V" else dtype.str
    header = {"descr": descr, "fortran_order": fortran, "shape": shape}
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()


def from_npz(
    body: bytes,
    check_names: Callable[[Collection[str]], None] = lambda names: None,
    *,
    most_strings: int | None = MOST_STRINGS,
) -> dict[str, Array]:
    """Return the archive's arrays by name. Raises `TensorError`, also for over 64 MiB unpacked.

    `check_names` is called before anything is unpacked, and raises for names that are not wanted.
    `most_strings`: as for `from_npy`, in each array.
    """
    if not body.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        # An archive is found from its end: before it might stand something else, as a .npy.
        raise TensorError("the body is no .npz: it does not begin as one")
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            files = archive.infolist()
            unpacked = sum(file.file_size for file in files)
            if unpacked > MOST_UNPACKED_BYTES:
                raise TensorTooLargeError(
                    f"the .npz unpacks to {unpacked} bytes; "
                    f"the maximum is {MOST_UNPACKED_BYTES}; send less in one request"
                )
            names = [file.filename.removesuffix(".npy") for file in files]
            if len(set(names)) < len(names):
                raise TensorError("the .npz contains the same name twice")
            check_names(names)
            if len(names) > MOST_MEMBERS:
                problem = f"the .npz contains {len(names)} arrays; the maximum is {MOST_MEMBERS}"
                raise TensorError(problem)
            for file in files:
                # Other methods can be told to take gigabytes before their first byte is out.
                if file.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    problem = f"{file.filename[:60]}: compressed with a method other than deflate"
                    raise TensorError(problem)
            return {
                name: from_npy(archive.read(file), name[:60], most_strings=most_strings)
                for name, file in zip(names, files, strict=True)
            }
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
        raise TensorError(f"the body is no .npz: {error}") from None
    except (RuntimeError, KeyError, OverflowError, IndexError, struct.error) as error:
        # zipfile's words for an encrypted member, an unknown method, a damaged directory.
        raise TensorError(f"cannot read the .npz: {error}") from None


def to_npz(arrays: Arrays) -> bytes:
    """Return the arrays as an uncompressed .npz file. Raises `TensorError`."""
    if wrong := [name for name in arrays if "\0" in name]:
        raise TensorError(f"{wrong[0]!r}: array names in a .npz can't contain a zero byte")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            # Without a time, so that the same arrays give the same bytes.
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), to_npy(array, name))
    return file.getvalue()


class NpyRelay:
    """A converter of .npy bodies to PredictRequests without arrays, for one model's signature.

    Numbers are the same bytes in both. What precedes them, and whether they fit the signature,
    depends only on type and shape: it is kept from the first request of that form.
    """

    def __init__(self) -> None:
        # Where a body's numbers begin, and what precedes them in the request.
        self._known: LayoutCache[tuple[int, bytes]] = LayoutCache()

    def build_request(self, body: bytes) -> bytes | None:
        """Return the serialized PredictRequest, or None for a body of an unknown form."""
        if (known := self._known.get(body)) is None:
            return None
        start, before = known
        return b"".join((before, memoryview(body)[start:]))

    def learn(self, body: bytes, request: bytes, signature: Signature) -> None:
        """Keep the form of this valid body and of the request that was made from it."""
        layout = _SEEN.get(body)
        number = signature.inputs[signature.find_only_input()].dtype
        if layout is None or layout.order == "F" or number == BFLOAT16:
            return
        # A truth value may be any byte there, and is 0 or 1 in a request.
        if layout.dtype.kind not in "iufc" or layout.dtype != find_array_dtype(number):
            return
        before = request[: len(request) - (len(body) - layout.start)]
        self._known.keep(body, [(layout.start, len(body))], (layout.start, before))


# A response's new beginning, and the range of its numbers.
_ANSWERS: LayoutCache[tuple[bytes, int, int]] = LayoutCache()


def reply_to_npy(reply: bytes) -> bytes | None:
    """Return the .npy of a PredictResponse of one output of plain numbers; otherwise None."""
    layout = _ANSWERS.get(reply)
    if layout is None:
        places = find_places(reply)
        if places is None or len(places) != 1:
            return None
        place = places[0]
        layout = build_header(place.dtype, place.shape), place.start, place.end
        _ANSWERS.keep(reply, [(place.start, place.end)], layout)
    header, start, end = layout
    return b"".join((header, memoryview(reply)[start:end]))
