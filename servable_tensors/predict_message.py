"""A serialized PredictRequest of arrays, each copied once: from the array into the message.

What stands before a tensor's content is the same for every request of one shape, and takes
longer to write than a small tensor takes to send.
Source: https://protobuf.dev/programming-guides/encoding, tensorflow/core/framework/tensor.proto
"""

import functools
from typing import Any

import numpy as np

from servable_tensors import wire
from servable_tensors.signature import Signature
from servable_tensors.tensors import (
    BFLOAT16,
    STRING,
    Array,
    Arrays,
    UnknownTypeError,
    array_dtype,
    fill,
    string_bytes,
)

# Tags of the fields that hold bytes: inputs of PredictRequest, key and value of a map's
# entry, tensor_content and string_val of TensorProto.
_INPUTS, _KEY, _VALUE, _CONTENT = b"\x12", b"\x0a", b"\x12", b"\x22"
_STRING_VAL = b"\x42"
_SHORT = [bytes((length,)) for length in range(128)]
_STRINGS_AT_ONCE = 4096


def predict_message(model_spec: bytes, arrays: Arrays, signature: Signature) -> bytes:
    """`model_spec` is a PredictRequest that holds only that. Raises `UnknownTypeError`."""
    pieces: list[Any] = [model_spec]
    for name, array in arrays.items():
        number = signature.inputs[name].dtype
        if number == STRING:
            values = _strings(name, array)
            pieces += (_head(name, number, array.shape, len(values), b""), values)
            continue
        if number == BFLOAT16 or array.dtype.kind in "OSU":
            pieces.append(_entry(name, array, number))
            continue
        content = np.ascontiguousarray(array, array_dtype(number))
        pieces += (_head(name, number, array.shape, content.nbytes), content)
    return b"".join(pieces)


def _entry(name: str, array: Array, number: int) -> bytes:
    request = wire.PredictRequest()
    try:
        fill(request.inputs[name], array, number)
    except UnknownTypeError as bad:
        raise UnknownTypeError(f"{name}: {bad}") from None
    return bytes(request.SerializeToString())


def _strings(name: str, array: Array) -> bytearray:
    """string_val of all elements: a message of Python's would hold each of them twice more."""
    written = bytearray()
    texts = array.ravel()
    for at in range(0, len(texts), _STRINGS_AT_ONCE):
        for text in texts[at : at + _STRINGS_AT_ONCE].tolist():
            try:
                value = string_bytes(text)
            except UnknownTypeError as bad:
                raise UnknownTypeError(f"{name}: {bad}") from None
            length = len(value)
            written += _STRING_VAL
            written += _SHORT[length] if length < len(_SHORT) else _varint(length)
            written += value
    return written


@functools.lru_cache(maxsize=256)
def _head(
    name: str, number: int, shape: tuple[int, ...], content_bytes: int, content: bytes | None = None
) -> bytes:
    """All before the content: with its own tag and length, or `content` in their place."""
    tensor = wire.TensorProto(dtype=number)
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    tag = _CONTENT + _varint(content_bytes) if content is None else content
    before = bytes(tensor.SerializeToString()) + tag
    value = _VALUE + _varint(len(before) + content_bytes) + before
    key = _KEY + _varint(len(name.encode())) + name.encode()
    return _INPUTS + _varint(len(key) + len(value) + content_bytes) + key + value


def _varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return found + bytes((number,))
