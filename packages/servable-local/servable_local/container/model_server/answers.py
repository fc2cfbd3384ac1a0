"""Responses of TensorFlow Serving's REST interface: arrays become JSON; classify and regress.

The text matters: the size of a response counts against SageMaker's limit, and a
columnar response has every number on a line of its own.
Source: https://github.com/tensorflow/serving (tensorflow_serving/util/json_tensor.cc)

Only SavedModels of TensorFlow 1's estimators have signatures to classify and regress; all that TensorFlow 2
exports is predict. Source: https://www.tensorflow.org/tfx/serving/api_rest and
tensorflow_serving/servables/tensorflow/{classifier,regressor}.cc
"""

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from servable_local.container.http_messages import HttpError
from servable_local.container.model_server.predict_request import (
    DEFAULT_SIGNATURE,
    is_base64,
    parse_json_object,
)
from servable_local.container.model_server.runtime import LoadedSignature, LoadedVersion
from servable_tensors.tensors import Array

INDENT = "    "


def format_rows(arrays: Mapping[str, Array]) -> bytes:
    """Format {"predictions": [...]}: one element per row; plain values for a single output."""
    count: int | None = None
    for name, array in arrays.items():
        if array.ndim == 0:
            raise HttpError(f"Tensor name: {name} has no shape information ")
        count = len(array) if count is None else count
        if len(array) != count:
            size = f"batch size: {len(array)} expecting: {count}"
            raise HttpError(f"Tensor name: {name} has inconsistent {size}")
    texts = {name: _join_rows(name, array) for name, array in arrays.items()}
    if len(texts) == 1:
        rows = ", ".join(next(iter(texts.values())))
    else:
        keys = {name: f"{INDENT * 3}{json.dumps(name)}: " for name in texts}
        objects = (
            ",\n".join(keys[name] + texts[name][row] for name in texts) for row in range(count or 0)
        )
        rows = "\n" + ",\n".join(f"{INDENT * 2}{{\n{each}\n{INDENT * 2}}}" for each in objects)
    return _encode(f'{{\n{INDENT}"predictions": [{rows}\n{INDENT}]\n}}')


def format_columns(arrays: Mapping[str, Array]) -> bytes:
    """Format {"outputs": ...}: one array per output, without a name if there is only one."""
    if len(arrays) == 1:
        ((name, array),) = arrays.items()
        outputs = _indent(name, array, level=1)
    else:
        columns = ",\n".join(
            f"{INDENT * 2}{json.dumps(name)}: {_indent(name, array, level=2)}"
            for name, array in arrays.items()
        )
        outputs = f"{{\n{columns}\n{INDENT}}}"
    return _encode(f'{{\n{INDENT}"outputs": {outputs}\n}}')


def _encode(text: str) -> bytes:
    # Strings that are not UTF-8 go out as the bytes they are, as from the model server.
    return text.encode(errors="surrogateescape")


def _format_values(name: str, array: Array) -> list[str]:
    values: list[Any] = array.ravel().tolist()
    if array.dtype.kind in "iu":
        return [str(value) for value in values]
    if array.dtype.kind == "b":
        return ["true" if value else "false" for value in values]
    if array.dtype.kind == "O":
        if name.endswith("_bytes"):
            return [f'{{"b64": "{base64.b64encode(value).decode()}"}}' for value in values]
        texts = (value.decode(errors="surrogateescape") for value in values)
        return [json.dumps(text, ensure_ascii=False) for text in texts]
    if array.dtype.kind == "c":
        raise HttpError(f"Failed to write JSON value for tensor type: {array.dtype.name}")
    decimals = array.astype(np.float32 if array.dtype.itemsize < 8 else np.float64)
    return _format_decimals(decimals.ravel())


def _format_decimals(array: Array) -> list[str]:
    # TensorFlow Serving tries six digits first, and falls back to as many as restore every
    # float: 9 for float32, 17 for float64.
    full = ".9g" if array.dtype == np.float32 else ".17g"
    values: list[float] = array.tolist()
    short = [format(value, "g") for value in values]
    read_back = np.array([float(text) for text in short]).astype(array.dtype)
    return [
        _format_decimal(text if same else format(value, full), value)
        for text, same, value in zip(short, (read_back == array).tolist(), values, strict=True)
    ]


def _format_decimal(text: str, value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "-Infinity" if value < 0 else "Infinity"
    # A whole number keeps its point, so that readers don't parse it as an integer.
    return text if "." in text or "e" in text else text + ".0"


def _format_float32(value: float) -> str:
    return _format_decimals(np.array([value], np.float32))[0]


def _join_rows(name: str, array: Array) -> list[str]:
    """Return one text per row, each on a single line."""
    texts = _format_values(name, array)
    for axis in range(array.ndim - 1, 0, -1):
        texts = ["[" + ", ".join(group) + "]" for group in _group_texts(texts, array.shape, axis)]
    return texts


def _indent(name: str, array: Array, *, level: int) -> str:
    texts = _format_values(name, array)
    for axis in range(array.ndim - 1, -1, -1):
        outer = "\n" + INDENT * (level + axis)
        inner = outer + INDENT
        texts = [
            "[" + inner + ("," + inner).join(group) + outer + "]" if group else "[]"
            for group in _group_texts(texts, array.shape, axis)
        ]
    return texts[0]


def _group_texts(texts: list[str], shape: tuple[int, ...], axis: int) -> list[list[str]]:
    size = shape[axis]
    if size == 0:
        return [[] for _ in range(math.prod(shape[:axis]))]
    return [texts[start : start + size] for start in range(0, len(texts), size)]


Compute = Callable[[LoadedSignature, Mapping[str, Array]], dict[str, Array]]
Labelled = list[list[tuple[str, float]]]


def build_response(method: str, body: bytes, servable: LoadedVersion, compute: Compute) -> bytes:
    """Return the JSON response to :classify or :regress. Raises `HttpError`."""
    request = parse_json_object(body)
    signature = find_signature(servable, str(request.get("signature_name") or ""), method)
    examples = request.get("examples")
    if not isinstance(examples, list) or not examples:
        raise HttpError("Missing or empty 'examples' key: it holds a list of objects")
    shared = request.get("context") or {}
    serialized = [_serialize(shared, example) for example in examples]
    if method == "regress":
        results = _format_decimals(np.array(regress(signature, serialized, compute), np.float32))
    else:
        results = []
        for row in classify(signature, serialized, compute):
            pairs = (f"[{json.dumps(label)}, {_format_float32(score)}]" for label, score in row)
            results.append(f"[{', '.join(pairs)}]")
    return f'{{\n{INDENT}"result": [{", ".join(results)}]\n}}'.encode()


def find_signature(servable: LoadedVersion, name: str, method: str) -> LoadedSignature:
    """Return the signature with this name and method. Raises `HttpError`."""
    name = name or DEFAULT_SIGNATURE
    if name not in servable.signatures:
        raise HttpError(f'Serving signature name: "{name}" not found in signature def')
    signature = servable.signatures[name]
    if signature.method != f"tensorflow/serving/{method}":
        raise HttpError(
            f"Expected {method} signature method_name to be tensorflow/serving/{method}. "
            f"Was: {signature.method}",
        )
    return signature


def classify(signature: LoadedSignature, serialized: Sequence[bytes], compute: Compute) -> Labelled:
    """Return the labels of each example, with their scores."""
    computed = _compute(signature, serialized, compute)
    shape = next(iter(computed.values())).shape
    labels = computed.get("classes", np.full(shape, b"", object))
    numbers = computed.get("scores", np.zeros(shape))
    return [
        [(label.decode(errors="replace"), float(score)) for label, score in zip(*row, strict=True)]
        for row in zip(np.atleast_2d(labels), np.atleast_2d(numbers), strict=True)
    ]


def regress(
    signature: LoadedSignature, serialized: Sequence[bytes], compute: Compute
) -> list[float]:
    """Return one number for each example."""
    numbers = _compute(signature, serialized, compute)["outputs"].ravel()
    if len(numbers) != len(serialized):
        raise HttpError(f"Expected {len(serialized)} outputs, got {len(numbers)}")
    return [float(value) for value in numbers]


def _compute(
    signature: LoadedSignature, serialized: Sequence[bytes], compute: Compute
) -> dict[str, Array]:
    array = np.empty(len(serialized), dtype=object)
    array[:] = list(serialized)
    return compute(signature, {"inputs": array})


def _serialize(shared: dict[str, Any], features: object) -> bytes:
    if not isinstance(features, dict):
        raise HttpError("Example must be JSON object but got something else")
    # Imported here: the rest of this file is used without TensorFlow, in tests.
    from tensorflow.core.example import example_pb2

    example = example_pb2.Example()
    for name, value in (shared | features).items():
        values = value if isinstance(value, list) else [value]
        feature = example.features.feature[name]
        types = set(map(type, values))
        if types <= {int}:
            feature.int64_list.value.extend(values)
        elif types <= {int, float}:
            feature.float_list.value.extend(values)
        elif all(isinstance(item, str) or is_base64(item) for item in values):
            feature.bytes_list.value.extend(
                item.encode() if isinstance(item, str) else base64.b64decode(item["b64"])
                for item in values
            )
        else:
            raise HttpError(f"Example feature {name} has values of more than one type")
    serialized: bytes = example.SerializeToString()
    return serialized
