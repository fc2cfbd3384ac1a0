"""A golden request with invented values that fits a signature: one row."""

import base64
import json
import math
import struct
import zlib
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
        notes.append(f"{key}: its shape {list(shape)} is open; an invented request has {sizes}")
    values = list(_numbers(spec.dtype, math.prod(sizes)))
    if spec.dtype in ("string", "bytes") and key.endswith("_bytes"):
        values = [{"b64": base64.b64encode(_picture()).decode()}] * len(values)
    return _nested(values, sizes)


def _picture() -> bytes:
    """Return a PNG of one grey 8 x 8 picture: what an input that ends in _bytes most often takes.

    Source: https://www.tensorflow.org/tfx/serving/api_rest#encoding_binary_values (2026-11-29) and
    https://www.w3.org/TR/png-3/#4Concepts.FormatChunks (2026-11-29)
    """

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)  # 8 bits each of red, green, and blue
    rows = zlib.compress((b"\0" + b"\x80" * 24) * 8)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


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
