"""TensorFlow Serving's PredictRequest and PredictResponse as bodies.

A message is a sequence of fields, so a small serialized head and the tensor's own bytes,
put one behind the other, are the tensor: one copy of the numbers, where filling a message
and serializing it takes three.
Source: https://protobuf.dev/programming-guides/encoding
"""

import functools

import numpy as np
from google.protobuf.message import DecodeError

from servable_client.arrays import UNNAMED, Array, Arrays
from servable_client.errors import BadInputError
from servable_client.formats import protobuf_fields
from servable_client.selection import Selection
from servable_tensors import tensors, wire

_INPUTS = b"\x12"  # PredictRequest.inputs, field 2
_KEY, _VALUE = b"\x0a", b"\x12"  # of an entry of a map
_CONTENT = b"\x22"  # TensorProto.tensor_content, field 4
# Below this a parser in C is done before a walk in Python has begun.
_WALKED_BYTES = 64 << 10
Piece = bytes | memoryview


def encode(arrays: Arrays, selection: Selection) -> bytes:
    """Raises `BadInputError`."""
    if UNNAMED in arrays:
        raise BadInputError('a PredictRequest holds inputs by name; name it, or use format="npy"')
    pieces: list[Piece] = [_model_spec(selection.model, selection.version, selection.signature)]
    for name, array in arrays.items():
        tensor = _tensor(name, array)
        key = name.encode()
        key = _KEY + _varint(len(key)) + key + _VALUE + _varint(_length(tensor))
        pieces += [_INPUTS + _varint(len(key) + _length(tensor)) + key, *tensor]
    return b"".join(pieces)


def decode(body: bytes) -> dict[str, Array]:
    """Raises `ValueError`."""
    try:
        walked = len(body) >= _WALKED_BYTES
        return protobuf_fields.outputs(body) if walked else protobuf_fields.parsed(body)
    except DecodeError as error:
        raise ValueError(f"it is no PredictResponse ({error})") from None
    except OverflowError as error:  # a half_val below nothing
        raise ValueError(str(error)) from None


@functools.lru_cache(maxsize=256)
def _model_spec(model: str | None, version: int | None, signature: str | None) -> bytes:
    """Nothing where nothing is chosen: the handler knows the default model's name."""
    if model is None and version is None and signature is None:
        return b""
    spec = wire.ModelSpec(name=model or "", signature_name=signature or "")
    if version is not None:
        spec.version.value = version
    return bytes(wire.PredictRequest(model_spec=spec).SerializeToString())


def _tensor(name: str, array: Array) -> list[Piece]:
    try:
        number = _number(array)
        if number == tensors.STRING or not array.size:
            return [tensors.to_proto(array, number).SerializeToString()]
    except tensors.UnknownTypeError as bad:
        raise BadInputError(f"{name}: {bad}") from None
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    return [_head(number, array.shape) + _CONTENT + _varint(len(content)), content]


def _number(array: Array) -> int:
    if array.dtype.name == "bfloat16":  # of the ml_dtypes package, where somebody uses it
        return tensors.BFLOAT16
    return tensors.data_type(array)


@functools.lru_cache(maxsize=1024)
def _head(number: int, shape: tuple[int, ...]) -> bytes:
    message = wire.TensorProto(dtype=number)
    for size in shape:
        message.tensor_shape.dim.add(size=size)
    return bytes(message.SerializeToString())


def _length(pieces: list[Piece]) -> int:
    return sum(map(len, pieces))


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
