"""A PredictRequest as TensorFlow's C++ reads it: its wire format reader, and Tensor::FromProto."""

from typing import Any

import tensorflow as tf
from google.protobuf import descriptor_pb2

from servable_tensors import wire
from tests.fuzz.body_reference import Tensor

_REQUEST = "tensorflow.serving.PredictRequest"


def _descriptors() -> bytes:
    found = descriptor_pb2.FileDescriptorSet()
    file = wire.PredictRequest.DESCRIPTOR.file
    for one in (*file.dependencies, file):
        one.CopyToProto(found.file.add())
        for message in found.file[-1].message_type:
            # C++ wants the fields of a oneof side by side; none is looked at here.
            message.ClearField("oneof_decl")
            for field in message.field:
                field.ClearField("oneof_index")
    return b"bytes://" + bytes(found.SerializeToString())


_SOURCE = _descriptors()


def inputs_of(body: bytes) -> dict[str, Tensor]:
    """Raises ValueError for what TensorFlow does not read."""
    found = {}
    for entry in _decoded(body, _REQUEST, ["inputs"])[0].ravel().tolist():
        if not entry:
            continue  # how TensorFlow says that the field is not there
        name, tensor = _decoded(entry, f"{_REQUEST}.InputsEntry", ["key", "value"])
        found[name.ravel().tolist()[0].decode()] = _tensor(tensor.ravel().tolist()[0])
    return found


def _decoded(message: bytes, kind: str, names: list[str]) -> list[Any]:
    try:
        answer = tf.raw_ops.DecodeProtoV2(
            bytes=message,
            message_type=kind,
            field_names=names,
            output_types=[tf.string] * len(names),
            descriptor_source=_SOURCE,
        )
    except tf.errors.OpError as error:
        raise ValueError(str(error)) from None
    return [value.numpy() for value in answer.values]


def _tensor(serialized: bytes) -> Tensor:
    number = wire.TensorProto.FromString(serialized).dtype
    try:
        tensor = tf.io.parse_tensor(serialized, tf.as_dtype(number))
    except (tf.errors.OpError, TypeError) as error:
        raise ValueError(str(error)) from None
    if tensor.dtype.is_quantized:
        tensor = tf.bitcast(tensor, tf.as_dtype(tensor.dtype.name.removeprefix("q")))
    array = tensor.numpy()
    bits: Any
    if tensor.dtype == tf.string:
        bits = array.ravel().tolist() if tensor.shape.rank else [array]
    else:
        bits = array.tobytes()
    return Tensor(number, tuple(tensor.shape.as_list()), bits)
