"""Read the outputs in a response's body, whatever its content type."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from servable_tensors import UNNAMED_OUTPUT, TensorError, untyped_json, wire
from servable_tensors.codecs import CODECS, CSV, JSON, NPY, NPZ, PROTOBUF
from servable_tensors.predict_messages import find_places
from servable_tensors.records import parse_media_type
from servable_tensors.tensors import BFLOAT16, Array
from servable_tensors.text_bodies import TYPES_OF_JSON_LINES

# The name of the output of an unreadable body: all of its bytes, as one string.
WHOLE_BODY = "body"
UNKNOWN = ("", "application/octet-stream")
# An object of more keys has data in them, as users; an answer has no more paths.
_MOST_KEYS, _MOST_PATHS = 256, 4096
_WHOLE_NUMBERS = re.compile(r"\s*[-+]?\d{1,18}\s*")


@dataclass(frozen=True, slots=True)
class AnswerOutputs:
    """The outputs of a response by name."""

    arrays: Mapping[str, Array]
    rows: int
    """Elements of the batch dimension; 1 if the outputs have none in common."""
    typed: bool
    """Whether the format has types; JSON and CSV don't."""
    bfloat16: frozenset[str] = frozenset()
    """Outputs of this type, whose arrays are float32."""

    def count_rows(self, name: str) -> int:
        """Return the number of rows of an output; 1 if it hasn't one element per row."""
        return self.rows if self.arrays[name].shape[:1] == (self.rows,) else 1


def read_outputs(body: bytes, content_type: str) -> AnswerOutputs:
    """Read the outputs of a response; a body that can't be read becomes one, `WHOLE_BODY`."""
    media = parse_media_type(content_type)
    usual = _read_json if media.endswith("+json") else _select_reader(body)
    reader = _READERS.get(media, usual)
    try:
        outputs = reader(body)
    except (TensorError, ValueError, TypeError, RecursionError, DecodeError, csv.Error):
        outputs = None
    return outputs or AnswerOutputs({WHOLE_BODY: _build_text_array([body])}, 1, True)


def _select_reader(body: bytes) -> Callable[[bytes], AnswerOutputs | None]:
    """Return the reader for a body of unknown type, selected by its first bytes."""
    if body.startswith(b"\x93NUMPY"):
        return _READERS[NPY]
    if body.startswith(b"PK\x03\x04"):
        return _READERS[NPZ]
    return _read_json if body[:64].lstrip()[:1] in (b"{", b"[") else lambda body: None


def _build_outputs(arrays: Mapping[str, Array], *, typed: bool, **more: Any) -> AnswerOutputs:
    lengths = {array.shape[0] if array.ndim else None for array in arrays.values()}
    (length,) = lengths if len(lengths) == 1 else (None,)
    return AnswerOutputs(arrays, length or 1, typed, **more)


def _read_numpy(content_type: str, body: bytes) -> AnswerOutputs:
    return _build_outputs(CODECS[content_type].read_response(body), typed=True)


def _read_protobuf(body: bytes) -> AnswerOutputs:
    arrays = CODECS[PROTOBUF].read_response(body)
    if find_places(body) is not None:  # plain numbers, none of them bfloat16
        return _build_outputs(arrays, typed=True)
    tensors = wire.PredictResponse.FromString(body).outputs
    halves = frozenset(name for name, tensor in tensors.items() if tensor.dtype == BFLOAT16)
    return _build_outputs(arrays, typed=True, bfloat16=halves)


def _read_json(body: bytes) -> AnswerOutputs:
    answer = untyped_json.parse_strictly(body)
    try:
        tensors = untyped_json.convert_response(answer)
    except ValueError:
        return AnswerOutputs(_flatten_json(answer), 1, False)
    key = "outputs" if "outputs" in answer else "predictions"
    others = _flatten_json({name: value for name, value in answer.items() if name != key})
    beside = {f".{name}" if name in tensors else name: array for name, array in others.items()}
    return replace(_build_outputs(tensors, typed=False), arrays=tensors | beside)


def _read_json_lines(body: bytes) -> AnswerOutputs:
    rows = b",".join(line for line in body.splitlines() if line.strip())
    return _read_json(b'{"predictions": [' + rows + b"]}")


def _read_csv(body: bytes) -> AnswerOutputs:
    rows = [row for row in csv.reader(io.StringIO(body.decode(errors="surrogateescape"))) if row]
    if len({len(row) for row in rows}) != 1:
        lines = _build_text_array([line.strip() for line in body.splitlines() if line.strip()])
        return AnswerOutputs({UNNAMED_OUTPUT: lines}, len(lines) or 1, False)
    columns = [_parse_column(list(column)) for column in zip(*rows, strict=True)]
    if all(column.dtype.kind in "if" for column in columns):
        return AnswerOutputs({UNNAMED_OUTPUT: np.stack(columns, axis=1)}, len(rows), False)
    named = {f"column {number}": column for number, column in enumerate(columns, start=1)}
    return AnswerOutputs(named, len(rows), False)


def _parse_column(fields: list[str]) -> Array:
    if all(map(_WHOLE_NUMBERS.fullmatch, fields)):
        return np.array([int(field) for field in fields], np.int64)
    try:
        return np.array([float(field) for field in fields], np.float64)
    except ValueError:
        return _build_text_array([field.encode(errors="surrogateescape") for field in fields])


def _flatten_json(value: Any) -> dict[str, Array]:
    """Return the joined values of each path in a JSON value, such as `labels[].score`."""
    parts: dict[str, list[Array]] = {}
    for path, array in _iterate_leaves(value, ""):
        parts.setdefault(path or UNNAMED_OUTPUT, []).append(array)
        if len(parts) > _MOST_PATHS:
            raise ValueError("the JSON has more paths than a response may have outputs")
    return {path: _join_arrays(arrays) for path, arrays in parts.items()}


def _iterate_leaves(value: Any, path: str) -> Iterator[tuple[str, Array]]:
    if isinstance(value, dict) and len(value) > _MOST_KEYS:
        keys = sorted(value)
        texts = [key.encode(errors="surrogatepass") for key in keys]
        yield f"{path}{{key}}", _build_text_array(texts)
        for key in keys:
            yield from _iterate_leaves(value[key], f"{path}{{}}")
        return
    if isinstance(value, dict) and (value or not path):
        for key, below in value.items():
            yield from _iterate_leaves(below, f"{path}.{key}" if path else str(key))
        return
    try:
        yield path, untyped_json.build_arrays({"": value})[""]
    except ValueError:  # null, objects, or lists of several kinds or lengths
        if isinstance(value, list):
            for below in value:
                yield from _iterate_leaves(below, f"{path}[]")
        else:
            yield path, _build_text_array([json.dumps(value).encode()]).reshape(())


def _join_arrays(arrays: list[Array]) -> Array:
    if len(arrays) == 1:
        return arrays[0]
    flat = [array.ravel() for array in arrays]
    kinds = {array.dtype.kind for array in flat}
    if len(kinds & {"O", "b"}) and len(kinds) > 1:  # of several kinds: compared as text
        values = (value for array in flat for value in array.tolist())
        return _build_text_array([str(value).encode() for value in values])
    return np.concatenate(flat)


def _build_text_array(values: list[bytes]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


_READERS: Mapping[str, Callable[[bytes], AnswerOutputs | None]] = {
    JSON: _read_json,
    **dict.fromkeys(TYPES_OF_JSON_LINES, _read_json_lines),
    CSV: _read_csv,
    NPY: partial(_read_numpy, NPY),
    NPZ: partial(_read_numpy, NPZ),
    PROTOBUF: _read_protobuf,
}
