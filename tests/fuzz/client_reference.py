"""What an answer holds by the libraries that define its format: protobuf, NumPy and json.

Nothing of ours is used: the messages are built here, from the field numbers of
tensorflow/core/framework/tensor.proto and tensorflow_serving/apis/predict.proto.
"""

import base64
import io
import json
import math
from typing import Any

import ml_dtypes
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


class UnreadableError(Exception):
    """The reference does not read it either."""


_FIELD = descriptor_pb2.FieldDescriptorProto


def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(
        name="reference.proto", package="reference", syntax="proto3"
    )

    def message(name: str, parent: Any = None) -> Any:
        made = (parent.nested_type if parent else file.message_type).add()
        made.name = name
        return made

    def field(of: Any, number: int, name: str, kind: str, many: bool = False) -> None:
        made = of.field.add(name=name, number=number)
        made.label = _FIELD.LABEL_REPEATED if many else _FIELD.LABEL_OPTIONAL
        if kind.startswith("."):
            made.type, made.type_name = _FIELD.TYPE_MESSAGE, f".reference{kind}"
        else:
            made.type = getattr(_FIELD, f"TYPE_{kind.upper()}")

    shape = message("Shape")
    size = message("Dim", shape)
    field(size, 1, "size", "int64")
    field(size, 2, "name", "string")
    field(shape, 2, "dim", ".Shape.Dim", True)
    field(shape, 3, "unknown_rank", "bool")
    tensor = message("Tensor")
    field(tensor, 1, "dtype", "int32")  # an open enum is read as an int32 is
    field(tensor, 2, "tensor_shape", ".Shape")
    field(tensor, 3, "version_number", "int32")
    field(tensor, 4, "tensor_content", "bytes")
    for number, name, kind in VALUES:
        field(tensor, number, name, kind, True)
    version = message("Version")
    field(version, 1, "value", "int64")
    spec = message("Spec")
    for number, name in ((1, "name"), (3, "signature_name"), (4, "version_label")):
        field(spec, number, name, "string")
    field(spec, 2, "version", ".Version")
    response = message("Response")
    entry = message("OutputsEntry", response)
    entry.options.map_entry = True
    field(entry, 1, "key", "string")
    field(entry, 2, "value", ".Tensor")
    field(response, 1, "outputs", ".Response.OutputsEntry", True)
    field(response, 2, "model_spec", ".Spec")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


VALUES = [
    (5, "float_val", "float"),
    (6, "double_val", "double"),
    (7, "int_val", "int32"),
    (8, "string_val", "bytes"),
    (9, "scomplex_val", "float"),
    (10, "int64_val", "int64"),
    (11, "bool_val", "bool"),
    (12, "dcomplex_val", "double"),
    (13, "half_val", "int32"),
    (16, "uint32_val", "uint32"),
    (17, "uint64_val", "uint64"),
]
# tensorflow/core/framework/types.proto: number, NumPy's type in memory, field of the values.
TYPES: dict[int, tuple[str, str]] = {
    1: ("f4", "float_val"),
    2: ("f8", "double_val"),
    3: ("i4", "int_val"),
    4: ("u1", "int_val"),
    5: ("i2", "int_val"),
    6: ("i1", "int_val"),
    7: ("O", "string_val"),
    8: ("c8", "scomplex_val"),
    9: ("i8", "int64_val"),
    10: ("?", "bool_val"),
    14: ("bfloat16", "half_val"),
    17: ("u2", "int_val"),
    18: ("c16", "dcomplex_val"),
    19: ("f2", "half_val"),
    22: ("u4", "uint32_val"),
    23: ("u8", "uint64_val"),
}
QUANTIZED = {11: ("i1", "int_val"), 12: ("u1", "int_val"), 13: ("i4", "int_val")}
QUANTIZED |= {15: ("i2", "int_val"), 16: ("u2", "int_val")}
_POOL = _pool()
Response = message_factory.GetMessageClass(_POOL.FindMessageTypeByName("reference.Response"))
Tensor = message_factory.GetMessageClass(_POOL.FindMessageTypeByName("reference.Tensor"))


def read(form: str, body: bytes) -> dict[str, Any]:
    """The values by name. Raises `UnreadableError`."""
    try:
        return {"protobuf": _protobuf, "npy": _npy, "npz": _npz, "json": _json}[form](body)
    except UnreadableError:
        raise
    except Exception as error:  # whatever a library raises over damaged bytes
        raise UnreadableError(str(error)) from None


def _protobuf(body: bytes) -> dict[str, Any]:
    response = Response.FromString(body)
    return {name: tensor_array(tensor) for name, tensor in response.outputs.items()}


def tensor_array(tensor: Any) -> Any:
    """As Tensor::FromProto reads it: missing values repeat the last one, else are zero."""
    number = tensor.dtype
    if number not in TYPES | QUANTIZED or tensor.tensor_shape.unknown_rank:
        raise UnreadableError(f"type {number}, or a shape that is not known")
    sizes = [one.size for one in tensor.tensor_shape.dim]
    if min(sizes, default=0) < 0 or len(sizes) > 254 or math.prod(sizes) > 1 << 27:
        raise UnreadableError("sizes")
    count = math.prod(sizes)
    kind, field = (TYPES | QUANTIZED)[number]
    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    if tensor.tensor_content and kind != "O":
        if len(tensor.tensor_content) != count * dtype.itemsize:
            raise UnreadableError("content of another length")
        return np.frombuffer(tensor.tensor_content, dtype).reshape(sizes)
    values = list(getattr(tensor, field))
    if kind in ("c8", "c16"):
        part = np.float32 if kind == "c8" else np.float64
        flat = np.array(values[: len(values) // 2 * 2], part).view(kind)
    elif field == "half_val":
        flat = np.array([value & 0xFFFF for value in values], np.uint16).view(dtype)
    elif kind == "O":
        flat = np.empty(len(values), object)
        flat[:] = values
    elif field == "int_val":
        flat = np.array(values, np.int32).astype(dtype)
    else:
        flat = np.array(values, dtype)
    filled = np.empty(count, flat.dtype)
    filled[: len(flat)] = flat[:count]
    if len(flat) < count:
        filled[len(flat) :] = flat[-1] if len(flat) else (b"" if kind == "O" else 0)
    return filled.reshape(sizes)


def _npy(body: bytes) -> dict[str, Any]:
    return {"output": _texts(np.load(io.BytesIO(body), allow_pickle=False))}


def _npz(body: bytes) -> dict[str, Any]:
    with np.load(io.BytesIO(body), allow_pickle=False) as archive:
        found = {name: archive[name] for name in archive.files}
    if not all(isinstance(array, np.ndarray) for array in found.values()):
        raise UnreadableError("a member that is no array")
    return {name: _texts(array) for name, array in found.items()}


def _texts(array: Any) -> Any:
    if array.dtype.kind not in "SU":
        return array
    texts = np.empty(array.size, object)
    texts[:] = [
        value if isinstance(value, bytes) else value.encode() for value in array.ravel().tolist()
    ]
    return texts.reshape(array.shape)


def _json(body: bytes) -> dict[str, Any]:
    """Python's values as json has them: numbers, never rounded; strings as bytes."""
    answer = json.loads(body, parse_float=_number, object_pairs_hook=_once)
    found = answer["outputs"] if "outputs" in answer else answer["predictions"]
    rows = "outputs" not in answer and found and all(isinstance(row, dict) for row in found)
    if rows and not any(row.keys() == {"b64"} for row in found):
        found = {name: [row[name] for row in found] for name in found[0]}
    if not isinstance(found, dict) or found.keys() == {"b64"}:
        found = {"output": found}
    return {name: _plain(value) for name, value in found.items()}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise UnreadableError("a name twice")
    return dict(pairs)


def _number(text: str) -> float:
    if math.isinf(float(text)):
        raise UnreadableError("above float64's maximum")
    return float(text)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        if value.keys() != {"b64"}:
            raise UnreadableError("an object")
        return base64.b64decode(value["b64"], validate=True)
    return value
