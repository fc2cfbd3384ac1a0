"""Conversion of arrays to text: the model server's JSON by rows, by columns or by lines, and CSV.

Source: https://www.tensorflow.org/tfx/serving/api_rest
"""

import base64
import csv
import io
import json
from itertools import chain
from json.encoder import encode_basestring  # as json.dumps with ensure_ascii=False
from typing import Any

import numpy as np

from servable_tensors import TensorError
from servable_tensors.tensors import Array, Arrays, build_object_array

_ELEMENTS_AT_ONCE = 4096


def as_rows(arrays: Arrays) -> bytes:
    """Return {"predictions": [...]}, with plain values for a single output. Raises `TensorError`."""
    return f'{{"predictions": [{", ".join(format_rows(arrays))}]}}'.encode(errors="surrogateescape")


def as_columns(arrays: Arrays, *, key: str = "outputs") -> bytes:
    """Return {"outputs": ...}, without the name of a single output. Raises `TensorError`.

    With the key "inputs" it is a request, in which a string that isn't UTF-8 is base64.
    """
    if key == "inputs":
        arrays = {name: _mark_base64(array) for name, array in arrays.items()}
    columns = {name: _format_nested(name, array, array.ndim) for name, array in arrays.items()}
    if len(columns) == 1:
        written = "".join(columns.values())
    else:
        pairs = (f"{json.dumps(name)}: {text}" for name, text in columns.items())
        written = f"{{{', '.join(pairs)}}}"
    return f'{{"{key}": {written}}}'.encode(errors="surrogateescape")


def as_lines(arrays: Arrays) -> bytes:
    """Return one JSON line for each row. Raises `TensorError` like `as_rows`."""
    return "".join(f"{row}\n" for row in format_rows(arrays)).encode(errors="surrogateescape")


def as_csv(arrays: Arrays) -> bytes:
    """Return one line for each row: the outputs in order, flattened. Raises `TensorError`."""
    _require_rows(arrays, ", so they can't become CSV lines")
    columns = [_format_cells(name, array) for name, array in arrays.items()]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows(chain.from_iterable(row) for row in zip(*columns, strict=True))
    return file.getvalue().encode(errors="surrogateescape")


def _format_cells(name: str, array: Array) -> list[list[str]]:
    if array.dtype == object:
        flat = [value.decode(errors="surrogateescape") for value in array.ravel().tolist()]
    else:
        flat = format_elements(name, array)
    width = len(flat) // len(array) if len(array) else 0
    return [flat[row * width : (row + 1) * width] for row in range(len(array))]


def _require_rows(arrays: Arrays, so: str) -> None:
    """Raise `TensorError` unless all outputs have equally many rows; `so` ends its message."""
    lengths = {len(array) if array.ndim else None for array in arrays.values()}
    if len(lengths) != 1 or None in lengths:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise TensorError(f"the outputs have no rows in common ({shapes}){so}")


def format_rows(arrays: Arrays) -> list[str]:
    """Return one JSON text for each row. Raises `TensorError` if the outputs have no common rows."""
    _require_rows(arrays, "; accept a different format, such as .npz")
    columns = [[_format_nested(name, row, row.ndim) for row in a] if a.ndim > 1 else format_elements(name, a)
               for name, a in arrays.items()]  # fmt: skip
    if len(columns) == 1:
        return columns[0]
    names = [json.dumps(name) for name in arrays]
    return [
        f"{{{', '.join(f'{name}: {text}' for name, text in zip(names, row, strict=True))}}}"
        for row in zip(*columns, strict=True)
    ]


def _mark_base64(array: Array) -> Array:
    if array.dtype.kind != "O":
        return array
    texts = [text if _is_utf8(text) else _Base64(text) for text in array.ravel().tolist()]
    return build_object_array(texts).reshape(array.shape)


class _Base64(bytes):
    """A string that is written as {"b64": …}."""


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _format_nested(name: str, array: Array, rank: int) -> str:
    if array.dtype.kind == "c":
        raise _build_complex_error(name)
    if rank == 0:
        return format_elements(name, array.reshape(1))[0]
    if rank == 1:
        # A text for each element takes many times what all of them take together.
        starts = range(0, len(array), _ELEMENTS_AT_ONCE)
        pieces = (
            ", ".join(format_elements(name, array[at : at + _ELEMENTS_AT_ONCE])) for at in starts
        )
        return f"[{', '.join(pieces)}]"
    return f"[{', '.join(_format_nested(name, row, rank - 1) for row in array)}]"


def format_elements(name: str, array: Array) -> list[str]:
    """Return a JSON text for each element. Raises `TensorError` for complex numbers."""
    values: list[Any] = array.ravel().tolist()
    if array.dtype.kind == "O":
        return [
            f'{{"b64": "{base64.b64encode(value).decode()}"}}'
            if name.endswith("_bytes") or type(value) is _Base64
            else encode_basestring(value.decode(errors="surrogateescape"))
            for value in values
        ]
    if array.dtype.kind == "c":
        raise _build_complex_error(name)
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        # As many digits as bring every float32 back; a double's would be noise.
        values = array.astype(np.float32).ravel().tolist()
        return [_format_decimal(f"{value:.9g}") for value in values]
    # All at once, in C; no number's text has a comma.
    return json.dumps(values)[1:-1].split(", ") if values else []


def _format_decimal(text: str) -> str:
    if text.endswith(("inf", "nan")):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(text, "NaN")
    # A whole number keeps its point, so that readers don't parse it as an integer.
    return text if "." in text or "e" in text else f"{text}.0"


def _build_complex_error(name: str) -> TensorError:
    return TensorError(f"{name}: JSON has no complex numbers; accept .npy, .npz or protobuf")
