"""A golden request with invented values that fits a signature: one row."""

import json
import math
from collections.abc import Iterator
from typing import Any

from model_packaging.saved_model.reading import DEFAULT_SIGNATURE, SignatureInfo, TensorInfo

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
    body["inputs"] = {key: _tensor(spec, key, notes) for key, spec in signature.inputs.items()}
    text = json.dumps(body, separators=(",", ":")) + "\n"
    if len(text) > LARGEST_REQUEST_BYTES:
        notes.append(f"one row is {len(text)} bytes as JSON: no golden request; send .npy instead")
        return None
    return text


def is_certain(signature: SignatureInfo) -> bool:
    """Whether the model takes the made-up request for sure, as far as its signature tells.

    Text may have to be a picture or a tf.Example, and an image may have to be larger. A warm-up record
    that fails keeps the model from loading, and the container from starting.
    Source: https://www.tensorflow.org/tfx/serving/saved_model_warmup (2026-11-22)
    """
    return all(
        one.dtype not in ("string", "bytes") and one.shape is not None and None not in one.shape[1:]
        for one in signature.inputs.values()
    )


def _tensor(spec: TensorInfo, key: str, notes: list[str]) -> Any:
    shape = (None,) if spec.shape is None else spec.shape
    sizes = [
        (ROWS if at == 0 else OTHER_SIZE) if size is None else size for at, size in enumerate(shape)
    ]
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
    if not sizes:
        return flat[0]
    step = len(flat) // sizes[0] if sizes[0] else 0
    if len(sizes) == 1:
        return flat
    return [_nested(flat[at * step : (at + 1) * step], sizes[1:]) for at in range(sizes[0])]
