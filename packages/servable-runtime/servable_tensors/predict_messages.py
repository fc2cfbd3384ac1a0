"""Serialized PredictRequests of arrays, and the arrays in serialized PredictResponses.

Numbers of a fixed width are the same bytes in a message as in an array, in tensor_content as in
float_val. So they are copied once into a request, and read in place in a response. What
precedes them is the same for every message of one shape, and takes longer to write and to
read than a small tensor takes to send.
Source: https://protobuf.dev/programming-guides/encoding, tensorflow/core/framework/tensor.proto
"""

import functools
import math
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from servable_tensors import wire
from servable_tensors.signature import Signature
from servable_tensors.tensor_walk import LayoutCache, read_shape
from servable_tensors.tensors import (
    BFLOAT16,
    STRING,
    Array,
    Arrays,
    UnknownTypeError,
    encode_string,
    fill_proto,
    find_array_dtype,
    find_element_bytes,
    find_type_number,
    is_bfloat16,
    to_array,
)
from servable_tensors.wire import BYTES, VARINT, WireError, encode_varint, iterate_fields

# Tags of the fields that hold bytes: inputs of PredictRequest, key and value of a map's
# entry, tensor_content of TensorProto.
_INPUTS, _KEY, _VALUE, _CONTENT = b"\x12", b"\x0a", b"\x12", b"\x22"
_STRINGS_AT_ONCE = 4096
_DTYPE, _SHAPE, _VERSION, _CONTENT_FIELD = 1, 2, 3, 4  # of TensorProto
# Field of TensorProto whose packed numbers are an array's -> the data type that they are of.
_PACKED = {5: 1, 6: 2, 9: 8, 12: 18}
MOST_OUTPUTS = 4096
MOST_DIMENSIONS = 32
"""NumPy's own bound before its version 2; a thousand sizes would take a second to multiply."""
# A plain response has a few besides its numbers; for more, the parser in C is faster.
_MOST_FIELDS = 64


def build_model_spec(model: str, version: int | None, signature: str | None) -> Any:
    """Return the wire.ModelSpec of a request or a response. None and "" are the model server's default."""
    spec = wire.ModelSpec(name=model, signature_name=signature or "")
    if version is not None:
        spec.version.value = version
    return spec


@functools.lru_cache(maxsize=256)
def serialize_model_spec(model: str, version: int | None, signature: str | None) -> bytes:
    """Return a serialized PredictRequest with only the model spec; empty if all is default."""
    # The same for most requests, and slower to write than the rest of a small one.
    spec = build_model_spec(model, version, signature)
    if not spec.ByteSize():
        return b""
    return bytes(wire.PredictRequest(model_spec=spec).SerializeToString())


def serialize_predict_request(
    spec: bytes, arrays: Arrays, signature: Signature | None = None
) -> bytes:
    """Return a serialized PredictRequest. `spec` comes from `serialize_model_spec`.

    Each tensor has the signature's type, or its array's. Raises `UnknownTypeError`.
    """
    pieces: list[Any] = [spec]
    for name, array in arrays.items():
        try:
            pieces += _encode_input(
                name, array, signature.inputs[name].dtype if signature else None
            )
        except UnknownTypeError as bad:
            raise UnknownTypeError(f"{name}: {bad}") from None
    return b"".join(pieces)


def _encode_input(name: str, array: Array, number: int | None) -> tuple[Any, ...]:
    """Return one input of a PredictRequest, in pieces."""
    if number is None:
        number = BFLOAT16 if is_bfloat16(array.dtype) else find_type_number(array.dtype)
    if number == STRING:
        values = _encode_strings(array)
        return _encode_head(name, number, array.shape, len(values), b""), values
    if number == BFLOAT16 or array.dtype.kind in "OSU":
        request = wire.PredictRequest()
        fill_proto(request.inputs[name], array, number)
        return (request.SerializeToString(),)
    content = np.ascontiguousarray(array, find_array_dtype(number))
    return _encode_head(name, number, array.shape, content.nbytes), content


def _encode_strings(array: Array) -> bytes:
    """Return the encoded string_val, in pieces: one message would hold each string twice more."""
    texts = array.ravel()
    pieces = []
    for at in range(0, len(texts), _STRINGS_AT_ONCE):
        values = [encode_string(text) for text in texts[at : at + _STRINGS_AT_ONCE].tolist()]
        pieces.append(wire.TensorProto(string_val=values).SerializeToString())
    return b"".join(pieces)


@functools.lru_cache(maxsize=256)
def _encode_head(
    name: str, number: int, shape: tuple[int, ...], content_bytes: int, content: bytes | None = None
) -> bytes:
    """Return all bytes before an input's content, with its tag and length, or with `content`."""
    tensor = wire.TensorProto(dtype=number)
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    tag = _CONTENT + encode_varint(content_bytes) if content is None else content
    before = bytes(tensor.SerializeToString()) + tag
    value = _VALUE + encode_varint(len(before) + content_bytes) + before
    key = _KEY + encode_varint(len(name.encode())) + name.encode()
    return _INPUTS + encode_varint(len(key) + len(value) + content_bytes) + key + value


class Place(NamedTuple):
    """The position of an output's numbers in a reply, with their type and shape."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    elements: int
    start: int

    @property
    def end(self) -> int:
        return self.start + self.elements * self.dtype.itemsize


_SEEN: LayoutCache[tuple[Place, ...]] = LayoutCache()


def read_arrays(reply: bytes, read: Callable[[Any], Array] = to_array) -> dict[str, Array]:
    """Return the outputs of a PredictResponse by name, sorted.

    They are read-only where they share its bytes. `read` converts a wire.TensorProto whose
    numbers are not plainly there. Raises `UnknownTypeError`, protobuf's DecodeError, and what
    `read` raises.
    """
    places = _SEEN.get(reply) or find_places(reply)
    if places is None:
        response = wire.PredictResponse.FromString(reply)
        if len(response.outputs) > MOST_OUTPUTS:
            problem = f"the response has {len(response.outputs)} outputs"
            raise UnknownTypeError(f"{problem}; the maximum is {MOST_OUTPUTS}")
        return {name: read(tensor) for name, tensor in sorted(response.outputs.items())}
    return {
        place.name: np.frombuffer(reply, place.dtype, place.elements, place.start).reshape(
            place.shape
        )
        for place in places
    }


def find_places(reply: bytes) -> tuple[Place, ...] | None:
    """Return the outputs' places, sorted by name; None if protobuf's parser has to read the reply."""
    places: list[Place] = []
    others = 0
    try:
        for number, kind, start, end in iterate_fields(reply, 0, len(reply)):
            if number == 1 and kind == BYTES:
                place = _find_place(reply, start, end)
                if place is None:
                    return None
                places.append(place)
            elif number == 2 and kind == BYTES and others < _MOST_FIELDS:
                wire.ModelSpec.FromString(reply[start:end])
                others += 1
            else:
                return None
    except (WireError, UnicodeDecodeError, DecodeError):
        return None
    if len({place.name for place in places}) < len(places) or len(places) > MOST_OUTPUTS:
        return None  # of a name that appears twice the last counts
    by_name = tuple(sorted(places))
    _SEEN.keep(reply, [(place.start, place.end) for place in places], by_name)
    return by_name


def _find_place(reply: bytes, start: int, end: int) -> Place | None:
    """Return an output's place; None for a field that appears twice or that no plain response has."""
    entry = list(islice(iterate_fields(reply, start, end), 3))
    if [part[:2] for part in entry] != [(1, BYTES), (2, BYTES)]:
        return None
    (_, _, *key), (_, _, *value) = entry
    number, shape, numbers = 0, None, None
    for field, kind, first, last in iterate_fields(reply, *value):
        if kind == VARINT and field in (_DTYPE, _VERSION):
            number = first if field == _DTYPE else number
        elif kind == BYTES and field == _SHAPE and shape is None:
            shape = read_shape(reply, first, last)
        elif kind == BYTES and (field == _CONTENT_FIELD or field in _PACKED) and numbers is None:
            numbers = field, first, last
        else:
            return None
    if numbers is None or find_element_bytes(number) is None or number in (STRING, BFLOAT16):
        return None
    if _PACKED.get(numbers[0], number) != number:
        return None
    sizes, unknown = shape or ([], False)
    if unknown or min(sizes, default=0) < 0 or len(sizes) > MOST_DIMENSIONS:
        return None
    dtype, count = find_array_dtype(number), math.prod(sizes)
    if numbers[2] - numbers[1] != count * dtype.itemsize or not count:
        return None
    return Place(reply[slice(*key)].decode(), dtype, tuple(sizes), count, numbers[1])
