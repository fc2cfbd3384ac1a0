"""A golden request with invented values that fits a signature: one row."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from model_packaging.saved_model.reading import DEFAULT_SIGNATURE, SignatureInfo, TensorInfo
from servable_tensors import MOST_DIMENSIONS

# InvokeEndpoint takes 6 MiB; a golden request is far smaller, or it is not written.
LARGEST_REQUEST_BYTES = 5_000_000
# Sizes used where the signature leaves them open.
ROWS, OTHER_SIZE = 1, 8


def golden_request(name: str, signature: SignatureInfo, notes: list[str]) -> str | None:
    """Return a JSON request of one row with invented values; None if JSON cannot express one."""
    body: dict[str, Any] = {} if name == DEFAULT_SIGNATURE else {"signature_name": name}
    if not signature.method.endswith("/predict"):
        notes.append(
            f"signature {name} is called by {signature.method.rpartition('/')[2]}, with tf.Example: no "
            "golden request was written"
        )
        return None
    if any(tensor.dtype in ("resource", "variant") for tensor in signature.inputs.values()):
        notes.append(
            f"signature {name} takes a type that JSON cannot express: no golden request was written"
        )
        return None
    sizes = {key: _sizes(spec) for key, spec in signature.inputs.items()}
    text = ""
    # Before anything is built: a shape of a few bytes may stand for 2^63 values.
    least = sum(_least_bytes(sizes[key], spec.dtype) for key, spec in signature.inputs.items())
    if (
        least <= LARGEST_REQUEST_BYTES
        and max(map(len, sizes.values()), default=0) <= MOST_DIMENSIONS
    ):
        tensors = signature.inputs.items()
        body["inputs"] = {key: _tensor(spec, sizes[key], key, notes) for key, spec in tensors}
        text = json.dumps(body, separators=(",", ":")) + "\n"
    if not 0 < len(text) <= LARGEST_REQUEST_BYTES:
        notes.append(
            f"one row takes more than {LARGEST_REQUEST_BYTES:,} bytes as JSON, or more than "
            f"{MOST_DIMENSIONS} dimensions: no golden request was written; send .npy instead"
        )
        return None
    return text


def is_certain(signature: SignatureInfo) -> bool:
    """Whether the model takes the made-up request for sure, as far as its signature tells.

    Text may have to be a picture or a tf.Example, an image may have to be larger, and integers may
    have to be the row splits of a ragged tensor or the indices of a sparse one, which TensorFlow
    exports as several inputs: x, x_1, x_2. A warm-up record that fails keeps the model from loading,
    and the container from starting.
    Source: https://www.tensorflow.org/tfx/serving/saved_model_warmup (2026-11-22); the names are those
    of a tf.RaggedTensorSpec and a tf.SparseTensorSpec, exported by TensorFlow 2.21 (2026-11-23)
    """
    inputs = signature.inputs
    of_several = {key for key in inputs if re.sub(r"_[0-9]+$", "", key) in inputs.keys() - {key}}
    kinds = {(spec.dtype, spec.shape) for spec in inputs.values()}
    return not of_several and all(
        spec.dtype not in ("string", "bytes")
        and spec.shape is not None
        and None not in spec.shape[1:]
        # A list of integers beside other inputs: row splits may have any name.
        and not (spec.dtype in ("int32", "int64") and spec.shape == (None,) and len(kinds) > 1)
        for spec in inputs.values()
    )


def _sizes(spec: TensorInfo) -> list[int]:
    shape = (None,) if spec.shape is None else spec.shape
    return [
        (ROWS if at == 0 else OTHER_SIZE) if size is None else size for at, size in enumerate(shape)
    ]


def _least_bytes(sizes: list[int], dtype: str) -> int:
    """Bytes that JSON takes at least: two for each list, and the first value's for every value."""
    lists, values = 0, 1
    for size in sizes:
        lists, values = lists + values, values * size
        if lists + values > LARGEST_REQUEST_BYTES:
            break
    return 2 * lists + values * len(json.dumps(next(_numbers(dtype, 1))) + ",")


def _tensor(spec: TensorInfo, sizes: list[int], key: str, notes: list[str]) -> Any:
    shape = (None,) if spec.shape is None else spec.shape
    if any(size is None for size in shape[1:]):
        notes.append(f"{key}: its shape {list(shape)} is open; the request has {sizes}")
    numbers = _numbers(spec.dtype, math.prod(sizes))
    return _nested(list(numbers), sizes)


def _numbers(dtype: str, count: int) -> Iterator[Any]:
    """Yield small values that are the same in every run and not all equal."""
    for at in range(count):
        if dtype in ("string", "bytes"):
            yield f"text {at}"
        elif dtype == "bool":
            yield at % 2 == 0
        elif "int" in dtype:
            yield at % 2
        else:
            yield at * 37 % 100 / 100


def _nested(flat: list[Any], sizes: list[int]) -> Any:
    if len(sizes) < 2:
        return flat if sizes else flat[0]
    step = len(flat) // sizes[0] if sizes[0] else 0
    return [_nested(flat[at * step : (at + 1) * step], sizes[1:]) for at in range(sizes[0])]
