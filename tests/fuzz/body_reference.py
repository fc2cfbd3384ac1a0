"""What a body means by NumPy, protobuf's parsers and `json`: tensors by name, as lists of values.

Each function raises ValueError for a body that its reference does not read, or for which it
does not say what it means, as a JSON object with a key twice.
"""

import base64
import io
import json
import math
from typing import Any, NamedTuple

import numpy as np

from servable_tensors import wire
from tests.servable_handler import text_reference

TYPES = {number: wire.find_dtype_name(number).removeprefix("q") for number in range(1, 24)}
_CONTENT = {name: np.dtype(name) for name in TYPES.values() if hasattr(np, name)} | {
    "bool": np.dtype(bool)
}
_LISTED = {
    "float32": "float_val", "float64": "double_val", "int64": "int64_val", "uint32": "uint32_val",
    "uint64": "uint64_val", "bool": "bool_val", "string": "string_val",
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
    if message.tensor_shape.unknown_rank or min(shape, default=0) < 0:
        raise ValueError("no shape")
    count = math.prod(shape)
    if count > 1 << 26:
        raise ValueError("too large")
    if name == "string":
        if message.tensor_content:
            raise ValueError("strings in tensor_content are TensorFlow's own code of them")
        return Tensor(message.dtype, shape, _repeated([*message.string_val], count))
    width = 2 if name == "bfloat16" else _CONTENT[name].itemsize if name in _CONTENT else 0
    if not width:
        raise ValueError("no type")
    if message.tensor_content:
        if len(message.tensor_content) != width * count:
            raise ValueError("another length")
        return Tensor(message.dtype, shape, message.tensor_content)
    if name.startswith("complex"):
        half = {8: "<f4", 16: "<f8"}[width]
        parts = message.scomplex_val if width == 8 else message.dcomplex_val
        if len(parts) % 2:
            raise ValueError("half a complex number")
        values = [np.array(parts[at : at + 2], half).tobytes() for at in range(0, len(parts), 2)]
    elif name in ("float16", "bfloat16"):
        values = [int(one).to_bytes(2, "little") for one in message.half_val]  # OverflowError too
    else:
        listed = getattr(message, _LISTED.get(name, "int_val"))
        if _CONTENT[name].kind in "iu":
            bounds = np.iinfo(_CONTENT[name])
            if any(not bounds.min <= one <= bounds.max for one in listed):
                raise ValueError("a value beyond its type")
        values = [_CONTENT[name].type(one).tobytes() for one in listed]
    return Tensor(message.dtype, shape, b"".join(_repeated(values, count)))


def _repeated(values: list[bytes], count: int) -> list[bytes]:
    if len(values) != count and (len(values) != 1 or not count):
        raise ValueError("another number of values")
    return values if len(values) == count else values * count


def of_npy(body: bytes, dtype: int) -> Tensor:
    """As a tensor of the data type."""
    return of_array(np.load(io.BytesIO(body), allow_pickle=False), dtype)


def of_npz(body: bytes, dtypes: dict[str, int]) -> dict[str, Tensor]:
    found = np.load(io.BytesIO(body), allow_pickle=False)
    if not isinstance(found, np.lib.npyio.NpzFile):
        raise ValueError("no archive")
    if len(set(found.files)) < len(found.files):
        raise ValueError("a name twice")
    return {name: of_array(found[name], dtypes.get(name, 0)) for name in found.files}


def of_array(array: Any, dtype: int) -> Tensor:
    if TYPES.get(dtype) == "string":
        if array.dtype.kind not in "SU":
            raise ValueError("no strings")
        texts = [
            value if isinstance(value, bytes) else value.encode()
            for value in array.ravel().tolist()
        ]
        return Tensor(dtype, array.shape, texts)
    if TYPES.get(dtype) == "bfloat16" and array.dtype.kind != "V":
        import ml_dtypes

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
        text.decode(), object_pairs_hook=_unique, parse_float=_finite, parse_constant=_Named
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


class _Named(float):
    """NaN or Infinity by name."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def _finite(text: str) -> float | None:
    """None, which is no value of a tensor, for what is beyond a double: it may stand unused."""
    return None if math.isinf(float(text)) else float(text)


def of_value(value: Any, dtype: int) -> Tensor:
    shape, first = [], value
    while isinstance(first, list):
        shape.append(len(first))
        if not first:
            break
        first = first[0]
    leaves = _leaves(value, shape)
    name = TYPES[dtype]
    if name == "string":
        return Tensor(dtype, tuple(shape), [_text_bytes(leaf) for leaf in leaves])
    return Tensor(dtype, tuple(shape), b"".join(_number_bits(leaf, name) for leaf in leaves))


def _leaves(value: Any, shape: list[int]) -> list[Any]:
    if not shape:
        if isinstance(value, list):
            raise ValueError("ragged")
        return [value]
    if not isinstance(value, list) or len(value) != shape[0]:
        raise ValueError("ragged")
    return [leaf for one in value for leaf in _leaves(one, shape[1:])]


def _text_bytes(leaf: Any) -> bytes:
    if isinstance(leaf, str):
        return leaf.encode()
    if isinstance(leaf, dict) and leaf.keys() == {"b64"}:
        return base64.b64decode(leaf["b64"], validate=True)
    raise ValueError("no string")


def _number_bits(leaf: Any, name: str) -> bytes:
    if isinstance(leaf, bool) != (name == "bool") or not isinstance(leaf, (int, float)):
        raise ValueError("no number")
    if name == "bool":
        return bytes([bool(leaf)])
    if name == "bfloat16":
        import ml_dtypes

        with np.errstate(over="ignore"):
            bits = np.array(leaf, "f8").astype("f4").astype(ml_dtypes.bfloat16)
        if np.isinf(bits.astype("f4")) and not math.isinf(leaf):
            raise ValueError("beyond its type")
        return (0x7FC0).to_bytes(2, "little") if np.isnan(bits.astype("f4")) else bits.tobytes()
    kind = _CONTENT[name]
    if kind.kind in "iu":
        if not isinstance(leaf, int):
            raise ValueError("no whole number")
        return leaf.to_bytes(kind.itemsize, "little", signed=kind.kind == "i")
    if kind.kind != "f":
        raise ValueError("no number of JSON's")
    with np.errstate(over="ignore"):
        found = np.array(leaf, "f8").astype(kind)
    if np.isinf(found) and not math.isinf(leaf):
        raise ValueError("beyond its type")
    return found.tobytes()
