"""TensorProto and arrays, as TensorFlow Serving reads and writes them: values field by field."""

from typing import Any

import numpy as np
from tensorflow.python.framework import dtypes, tensor_util

from servable_local.container.http_messages import HttpError
from servable_tensors.tensors import Array
from servable_tensors.wire import DataType

# NumPy's kind and size of a value -> field of TensorProto.
# Source: tensorflow/core/framework/tensor.proto
_FIELDS = {"float32": "float_val", "float64": "double_val", "int64": "int64_val"}
_FIELDS |= {"uint64": "uint64_val", "uint32": "uint32_val", "bool": "bool_val"}
_FIELDS |= dict.fromkeys(("int32", "int16", "int8", "uint16", "uint8"), "int_val")


def to_array(name: str, proto: Any) -> Array:
    """The array of a TensorProto with tensor_content or a list of values. Raises `HttpError` (400)."""
    try:
        array: Array = tensor_util.MakeNdarray(proto)
    except (TypeError, ValueError) as problem:
        raise HttpError(400, f"Invalid tensor {name}: {problem}") from None
    return array


def type_name(array: Array) -> str:
    """TensorFlow's name of the array's type."""
    return str(dtypes.as_dtype(array.dtype).name)


def write(array: Array, proto: Any) -> None:
    """Fills `proto`; tensor_content stays empty, as in the image's server."""
    kind = dtypes.as_dtype(array.dtype)
    proto.dtype = kind.as_datatype_enum
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    if proto.dtype == DataType["DT_STRING"]:
        proto.string_val.extend(array.ravel().tolist())
    elif kind.name in _FIELDS:
        getattr(proto, _FIELDS[kind.name]).extend(array.ravel().tolist())
    elif kind.name in ("float16", "bfloat16"):
        proto.half_val.extend(array.ravel().view(np.uint16).tolist())
    else:
        proto.tensor_content = array.tobytes()
