"""What a body means by NumPy, protobuf's parsers and `json`: tensors by name, as lists of values.

Each function raises ValueError for a body that its reference does not read, or for which it
does not say what it means, as a JSON object with a key twice.
"""

import io
import json
import math
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from servable_local.container.model_server import predict_request
from servable_tensors import wire
from tests.servable_handler import text_reference

TYPES = {number: wire.find_dtype_name(number).removeprefix("q") for number in range(1, 24)}
CONTENT = {name: np.dtype(name) for name in TYPES.values() if hasattr(np, name)} | {
    "bool": np.dtype(bool)
}
LISTED = {
    "float32": "float_val", "float64": "double_val", "int64": "int64_val", "uint32": "uint32_val",
    "uint64": "uint64_val", "bool": "bool_val", "string": "string_val", "float16": "half_val",
    "bfloat16": "half_val", "complex64": "scomplex_val", "complex128": "dcomplex_val",
}  # fmt: skip


class Tensor(NamedTuple):
    """`bits` are the elements' bytes as TensorFlow holds them; of strings, the list of them."""

    dtype: int
    shape: tuple[int, ...]
    bits: Any


def of_protobuf(body: bytes, *, by_tensorflow: bool = False) -> dict[str, Tensor]:
    """By upb, or by TensorFlow's own C++ from the message to the tensors."""
    if by_tensorflow:
        from tests.fuzz.tensorflow_reference import inputs_of

        return inputs_of(body)
    try:
        request = wire.PredictRequest.FromString(body)
    except Exception as error:  # protobuf's DecodeError is no ValueError
        raise ValueError(str(error)) from None
    return {name: of_message(tensor) for name, tensor in request.inputs.items()}


def of_message(message: Any) -> Tensor:
    """The value of a TensorProto as protobuf reads it. Values that TensorFlow would cut are no value."""
    name = TYPES.get(message.dtype, "")
    shape = tuple(dim.size for dim in message.tensor_shape.dim)
    count, field = math.prod(shape), LISTED.get(name, "int_val")
    if count > 1 << 26:
        raise ValueError("too large")
    if message.tensor_content and name == "string":
        raise ValueError("strings in tensor_content are TensorFlow's own code of them")
    if not message.tensor_content:
        values = getattr(message, field)
        each = 2 if name.startswith("complex") else 1
        if len(values) not in (count * each, each) or (not count and len(values)):
            raise ValueError("another number of values")
        if field == "half_val" or (name in CONTENT and CONTENT[name].kind in "iu"):
            bounds = np.iinfo(np.uint16 if field == "half_val" else CONTENT[name])
            if any(not bounds.min <= one <= bounds.max for one in values):
                raise ValueError("a value beyond its type")
    array = array_of(message)
    bits = array.ravel().tolist() if name == "string" else array.tobytes()
    return Tensor(message.dtype, shape, bits)


def array_of(message: Any) -> Any:
    """A TensorProto as Tensor::FromProto reads it: missing values repeat the last one, else are zero."""
    name = TYPES[message.dtype]
    sizes = [one.size for one in message.tensor_shape.dim]
    if message.tensor_shape.unknown_rank or min(sizes, default=0) < 0 or len(sizes) > 254:
        raise ValueError("sizes")
    count = math.prod(sizes)
    types = CONTENT | {"string": np.dtype(object), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
    dtype, field = types[name], LISTED.get(name, "int_val")
    if message.tensor_content and name != "string":
        return np.frombuffer(message.tensor_content, dtype).reshape(sizes)
    values = [*getattr(message, field)]
    if dtype.kind == "c":
        flat = np.array(values[: len(values) // 2 * 2], f"f{dtype.itemsize // 2}").view(dtype)
    elif field == "half_val":
        flat = np.array([value & 0xFFFF for value in values], np.uint16).view(dtype)
    elif field == "int_val":
        flat = np.array(values, np.int32).astype(dtype)
    else:
        flat = np.array(values, dtype)
    filled = np.empty(count, dtype)
    filled.fill(flat[-1] if len(flat) else b"" if name == "string" else 0)
    filled[: len(flat)] = flat[:count]
    return filled.reshape(sizes)


def of_npz(body: bytes, dtypes: dict[str, int]) -> dict[str, Tensor]:
    found = np.load(io.BytesIO(body), allow_pickle=False)
    if not isinstance(found, np.lib.npyio.NpzFile):
        raise ValueError("no archive")
    if len(set(found.files)) < len(found.files):
        raise ValueError("a name twice")
    return {name: of_array(found[name], dtypes.get(name, 0)) for name in found.files}


def texts_of(array: Any) -> list[bytes]:
    """The strings of an array of bytes or of text."""
    values = array.ravel().tolist()
    return [value if isinstance(value, bytes) else value.encode() for value in values]


def of_array(array: Any, dtype: int) -> Tensor:
    if TYPES.get(dtype) == "string":
        if array.dtype.kind not in "SU":
            raise ValueError("no strings")
        return Tensor(dtype, array.shape, texts_of(array))
    if TYPES.get(dtype) == "bfloat16" and array.dtype.kind != "V":
        if array.dtype.name != "float32":
            raise ValueError("another type")
        bits = array.astype(ml_dtypes.bfloat16)
        whole = np.where(np.isnan(array), 0x7FC0, bits.view("u2")).astype("<u2")
        return Tensor(dtype, array.shape, whole.tobytes())
    if array.dtype.kind == "b":
        array = array.view("u1").astype(bool)
    if array.dtype.name != TYPES.get(dtype) and array.dtype.str[1:] != "V2":
        raise ValueError("another type")
    little = array.dtype.newbyteorder("<")
    return Tensor(dtype, array.shape, np.ascontiguousarray(array, little).tobytes())


# --- text


def of_text(text: bytes, inputs: dict[str, int]) -> dict[str, Tensor]:
    """The value of the model server's JSON: what `json` reads, with NaN and Infinity by name only."""
    found = json.loads(
        text.decode(), object_pairs_hook=unique_names, parse_float=_finite, parse_constant=float
    )
    if "inputs" in found:
        columns = found["inputs"]
        if not isinstance(columns, dict) or columns.keys() == {"b64"}:
            columns = {next(iter(inputs)): columns}
    else:
        rows = found["instances"]
        if all(isinstance(row, dict) and row.keys() != {"b64"} for row in rows):
            columns = {name: [row[name] for row in rows] for name in rows[0]}
        else:
            columns = {next(iter(inputs)): rows}
    return {name: of_value(value, inputs[name]) for name, value in columns.items()}


def converted(content_type: str, body: bytes, accept: str) -> bytes:
    """A text as the container's NGINX hands it on where there is no code; for lines, line by line."""
    if content_type == "text/csv":
        return text_reference.from_csv(body)
    if content_type == "application/jsonlines" and accept in ("application/jsonlines", "text/csv"):
        return text_reference.from_records(body)
    return text_reference.from_json(body)


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def _finite(text: str) -> float | None:
    """None, which is no value of a tensor, for what is beyond a double: it may stand unused."""
    return None if math.isinf(float(text)) else float(text)


def of_value(value: Any, dtype: int) -> Tensor:
    """As the local container's model server reads it, in other code than the handler's."""
    array = predict_request.to_array(value, TYPES[dtype])
    if TYPES[dtype] == "string":
        return Tensor(dtype, array.shape, array.ravel().tolist())
    return of_array(array, dtype)
