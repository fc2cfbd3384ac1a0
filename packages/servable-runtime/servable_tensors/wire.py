"""The protobuf messages of TensorFlow, TensorFlow Serving, and SavedModel, and their fields.

tensorflow.proto and tensorflow_serving.proto define the messages that Servable reads or writes;
`python scripts/generate.py` compiles them into descriptors.base64. TensorFlow itself is not in
the serving image, and importing it anywhere costs seconds. The pool is private. In protobuf's
default pool these names would make a later `import tensorflow` fail with "duplicate file name".

`iterate_fields` finds the fields of a serialized message without parsing it. Parsers differ over
what no writer writes: C++ cuts a tag to 32 bits, upb rejects it, and a walker that kept it would
see another message than the parser. So it rejects whatever protobuf's own writers never produce:
tags that are longer than they need to be, groups, lengths of more than five bytes, integers of
more than 64 bits.
Source: https://protobuf.dev/programming-guides/encoding
"""

import base64
import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
Buffer = bytes | mmap.mmap
"""A saved_model.pb may be 2 GiB: of a memory map only the pages with tags and lengths are touched."""
Field = tuple[int, int, int, int]
"""Number, wire type, and from where to where its bytes are; of a varint, its value and 0."""

_TAG_BYTES, _LENGTH_BYTES, _VARINT_BYTES = 5, 5, 10  # parse_context.h, ReadTag and ReadSize


class WireError(ValueError):
    """The error of bytes that are not a protobuf message; `str()` says why."""


def iterate_fields(body: Buffer, at: int, end: int) -> Iterator[Field]:
    """Yield the fields between two positions, without parsing their content. Raises `WireError`."""
    while at < end:
        # Most tags and lengths are one byte: a call for each is most of the time.
        tag, at = (body[at], at + 1) if body[at] < 0x80 else _read_tag(body, at, end)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise WireError("a field has the invalid number 0")
        if kind == VARINT:
            value, at = read_varint(body, at, end)
            yield number, kind, value, 0
            continue
        if kind == BYTES:
            if at < end and body[at] < 0x80:
                length, at = body[at], at + 1
            else:
                length, at = read_varint(body, at, end, _LENGTH_BYTES)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise WireError(f"field {number} has the wire type {kind}, which isn't allowed")
        if length > end - at:
            raise WireError(f"field {number} is {length} bytes long; {end - at} are left")
        yield number, kind, at, at + length
        at += length


def read_single_fields(
    body: Buffer, at: int, end: int, kinds: Mapping[int, int], message: str
) -> dict[int, tuple[int, int]]:
    """Return each field's last two values, as of `iterate_fields`. Raises `WireError`.

    `kinds`: the wire types of the message's fields, of which each may appear once.
    """
    found: dict[int, tuple[int, int]] = {}
    for number, kind, first, last in iterate_fields(body, at, end):
        if kinds.get(number) != kind or number in found:
            raise WireError(f"field {number} of {message} is unknown, invalid, or repeated")
        found[number] = first, last
    return found


def _read_tag(body: Buffer, at: int, end: int) -> tuple[int, int]:
    tag, behind = read_varint(body, at, end, _TAG_BYTES)
    if tag >> 32 or body[behind - 1] == 0:
        raise WireError(f"a field begins with {body[at:behind].hex()}, which isn't a tag")
    return tag, behind


def read_varint(
    body: Buffer, at: int, end: int, most_bytes: int = _VARINT_BYTES
) -> tuple[int, int]:
    """Return the number at a position, and the position after it. Raises `WireError`."""
    value = shift = 0
    last = min(end, at + most_bytes)
    while at < last:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise WireError("a varint has more than 64 bits")
            return value, at
        shift += 7
    raise WireError("a number does not end")


def encode_varint(number: int) -> bytes:
    """Return the bytes of a number from 0 up: a tag's, or a length's."""
    written = b""
    while number > 0x7F:
        written += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return written + bytes((number,))


def _build_pool() -> descriptor_pool.DescriptorPool:
    compiled = base64.b64decode(Path(__file__).with_name("descriptors.base64").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _build_pool()


def _load_message_class(name: str) -> Any:
    # Any: a class made from a descriptor has attributes that no type checker can see.
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


TensorShapeProto = _load_message_class("tensorflow.TensorShapeProto")
TensorProto = _load_message_class("tensorflow.TensorProto")
AttrValue = _load_message_class("tensorflow.AttrValue")
NameAttrList = _load_message_class("tensorflow.NameAttrList")
AttrEntry = _load_message_class("tensorflow.AttrEntry")
NodeDef = _load_message_class("tensorflow.NodeDef")
FunctionDef = _load_message_class("tensorflow.FunctionDef")
VersionDef = _load_message_class("tensorflow.VersionDef")
GraphDef = _load_message_class("tensorflow.GraphDef")
TensorInfo = _load_message_class("tensorflow.TensorInfo")
SignatureDef = _load_message_class("tensorflow.SignatureDef")
AssetFileDef = _load_message_class("tensorflow.AssetFileDef")
MetaGraphDef = _load_message_class("tensorflow.MetaGraphDef")
BundleHeaderProto = _load_message_class("tensorflow.BundleHeaderProto")
BundleEntryProto = _load_message_class("tensorflow.BundleEntryProto")
ModelSpec = _load_message_class("tensorflow.serving.ModelSpec")
PredictRequest = _load_message_class("tensorflow.serving.PredictRequest")
PredictResponse = _load_message_class("tensorflow.serving.PredictResponse")
PredictionLog = _load_message_class("tensorflow.serving.PredictionLog")
SignatureDefMap = _load_message_class("tensorflow.serving.SignatureDefMap")
GetModelMetadataRequest = _load_message_class("tensorflow.serving.GetModelMetadataRequest")
GetModelMetadataResponse = _load_message_class("tensorflow.serving.GetModelMetadataResponse")
GetModelStatusRequest = _load_message_class("tensorflow.serving.GetModelStatusRequest")
GetModelStatusResponse = _load_message_class("tensorflow.serving.GetModelStatusResponse")
ClassificationRequest = _load_message_class("tensorflow.serving.ClassificationRequest")
ClassificationResponse = _load_message_class("tensorflow.serving.ClassificationResponse")
RegressionRequest = _load_message_class("tensorflow.serving.RegressionRequest")
RegressionResponse = _load_message_class("tensorflow.serving.RegressionResponse")

DataType: dict[str, int] = {
    value.name: value.number for value in _POOL.FindEnumTypeByName("tensorflow.DataType").values
}
"""DT_FLOAT -> 1, and so on."""


def find_dtype_name(number: int) -> str:
    """Return the name that TensorFlow and NumPy write, as "float32" for 1, or "dtype" and the number."""
    return _DTYPE_NAMES.get(number, f"dtype {number}")


_DTYPE_NAMES = {
    number: {"DT_FLOAT": "float32", "DT_DOUBLE": "float64", "DT_HALF": "float16"}.get(
        name, name.removeprefix("DT_").lower()
    )
    for name, number in DataType.items()
}
