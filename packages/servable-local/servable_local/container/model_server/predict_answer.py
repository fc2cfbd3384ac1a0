"""Arrays become the JSON that TensorFlow Serving writes, down to its line breaks.

The text matters: the size of an answer counts against SageMaker's limit, and a
columnar answer has every number on a line of its own.
Source: https://github.com/tensorflow/serving (tensorflow_serving/util/json_tensor.cc)
"""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from servable_local.container.http_messages import HttpError
from servable_tensors.tensors import Array

INDENT = "    "


def as_rows(arrays: Mapping[str, Array]) -> bytes:
    """{"predictions": [...]}: one element per row; plain values when there is a single output."""
    sizes: dict[str, int] = {}
    for name, array in arrays.items():
        if array.ndim == 0:
            raise HttpError(400, f"Tensor name: {name} has no shape information ")
        sizes[name] = len(array)
        expected = next(iter(sizes.values()))
        if len(array) != expected:
            raise HttpError(
                400,
                f"Tensor name: {name} has inconsistent batch size: {len(array)} "
                f"expecting: {expected}",
            )
    texts = {name: _rows(_texts(name, array), array.shape) for name, array in arrays.items()}
    if len(texts) == 1:
        rows = ", ".join(next(iter(texts.values())))
    else:
        keys = {name: f"{INDENT * 3}{json.dumps(name)}: " for name in texts}
        objects = (
            ",\n".join(keys[name] + texts[name][row] for name in texts)
            for row in range(next(iter(sizes.values()), 0))
        )
        rows = "\n" + ",\n".join(f"{INDENT * 2}{{\n{each}\n{INDENT * 2}}}" for each in objects)
    return _encoded(f'{{\n{INDENT}"predictions": [{rows}\n{INDENT}]\n}}')


def as_columns(arrays: Mapping[str, Array]) -> bytes:
    """{"outputs": ...}: one array per output, without its name when there is a single one."""
    if len(arrays) == 1:
        ((name, array),) = arrays.items()
        outputs = _indented(_texts(name, array), array.shape, level=1)
    else:
        columns = ",\n".join(
            f"{INDENT * 2}{json.dumps(name)}: "
            f"{_indented(_texts(name, array), array.shape, level=2)}"
            for name, array in arrays.items()
        )
        outputs = f"{{\n{columns}\n{INDENT}}}"
    return _encoded(f'{{\n{INDENT}"outputs": {outputs}\n}}')


def _encoded(text: str) -> bytes:
    # Strings that are not UTF-8 go out as the bytes they are, as from the model server.
    return text.encode(errors="surrogateescape")


def _texts(name: str, array: Array) -> list[str]:
    values: list[Any] = array.ravel().tolist()
    if array.dtype.kind in "iu":
        return [str(value) for value in values]
    if array.dtype.kind == "b":
        return ["true" if value else "false" for value in values]
    if array.dtype.kind == "O":
        if name.endswith("_bytes"):
            return [f'{{"b64": "{base64.b64encode(value).decode()}"}}' for value in values]
        return [
            json.dumps(value.decode(errors="surrogateescape"), ensure_ascii=False)
            for value in values
        ]
    if array.dtype.kind == "c":
        raise HttpError(400, f"Failed to write JSON value for tensor type: {array.dtype.name}")
    return _decimals(array.astype(np.float32 if array.dtype.itemsize < 8 else np.float64).ravel())


def _decimals(array: Array) -> list[str]:
    # TensorFlow Serving tries six digits first, and falls back to as many as
    # bring every float back: 9 for float32, 17 for float64.
    full = ".9g" if array.dtype == np.float32 else ".17g"
    values: list[float] = array.tolist()
    short = [format(value, "g") for value in values]
    read_back = np.array([float(text) for text in short]).astype(array.dtype)
    return [
        _number(text if same else format(value, full), value)
        for text, same, value in zip(short, (read_back == array).tolist(), values, strict=True)
    ]


def _number(text: str, value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "-Infinity" if value < 0 else "Infinity"
    # A whole number keeps its point, so that a reader does not take it for an integer.
    return text if "." in text or "e" in text else text + ".0"


def number(value: float) -> str:
    """One float32 as TensorFlow Serving writes it."""
    return _decimals(np.array([value], np.float32))[0]


def _rows(texts: list[str], shape: tuple[int, ...]) -> list[str]:
    """One text per row, all of it on one line."""
    for axis in range(len(shape) - 1, 0, -1):
        texts = ["[" + ", ".join(group) + "]" for group in _groups(texts, shape, axis)]
    return texts


def _indented(texts: list[str], shape: tuple[int, ...], *, level: int) -> str:
    for axis in range(len(shape) - 1, -1, -1):
        outer = "\n" + INDENT * (level + axis)
        inner = outer + INDENT
        texts = [
            "[" + inner + ("," + inner).join(group) + outer + "]" if group else "[]"
            for group in _groups(texts, shape, axis)
        ]
    return texts[0]


def _groups(texts: list[str], shape: tuple[int, ...], axis: int) -> list[list[str]]:
    size = shape[axis]
    if size == 0:
        return [[] for _ in range(math.prod(shape[:axis]))]
    return [texts[start : start + size] for start in range(0, len(texts), size)]
