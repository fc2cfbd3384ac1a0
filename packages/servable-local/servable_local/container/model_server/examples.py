"""classify and regress: tf.Example in, labels with scores or numbers out.

Only SavedModels of TensorFlow 1's estimators have such signatures; all that TensorFlow 2
exports is predict. Source: https://www.tensorflow.org/tfx/serving/api_rest and
tensorflow_serving/servables/tensorflow/{classifier,regressor}.cc
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from servable_local.container.http_messages import HttpError
from servable_local.container.model_server.predict_answer import number
from servable_local.container.model_server.predict_request import (
    DEFAULT_SIGNATURE,
    is_base64,
    json_object,
)
from servable_local.container.model_server.runtime import LoadedSignature, LoadedVersion
from servable_tensors.tensors import Array

Compute = Callable[[LoadedSignature, Mapping[str, Array]], dict[str, Array]]
Labelled = list[list[tuple[str, float]]]
# The names that both sides of such a signature have.
INPUTS, CLASSES, SCORES, OUTPUTS = "inputs", "classes", "scores", "outputs"


def answer(method: str, body: bytes, servable: LoadedVersion, compute: Compute) -> bytes:
    """The JSON answer to :classify or :regress. Raises `HttpError`."""
    request = json_object(body)
    signature = checked(servable, str(request.get("signature_name") or ""), method)
    examples = request.get("examples")
    if not isinstance(examples, list) or not examples:
        raise HttpError(400, "Missing or empty 'examples' key: it holds a list of objects")
    shared = request.get("context") or {}
    serialized = [_serialized(shared, example) for example in examples]
    if method == "regress":
        numbers = ", ".join(number(value) for value in regress(signature, serialized, compute))
        return f'{{\n    "result": [{numbers}]\n}}'.encode()
    rows = ", ".join(
        "[" + ", ".join(f"[{json.dumps(label)}, {number(score)}]" for label, score in row) + "]"
        for row in classify(signature, serialized, compute)
    )
    return f'{{\n    "result": [{rows}]\n}}'.encode()


def checked(servable: LoadedVersion, name: str, method: str) -> LoadedSignature:
    """The signature of this name, which must be of this method. Raises `HttpError`."""
    name = name or DEFAULT_SIGNATURE
    if name not in servable.signatures:
        raise HttpError(400, f'Serving signature name: "{name}" not found in signature def')
    signature: LoadedSignature = servable.signatures[name]
    if signature.method != f"tensorflow/serving/{method}":
        raise HttpError(
            400,
            f"Expected {method} signature method_name to be tensorflow/serving/{method}. "
            f"Was: {signature.method}",
        )
    return signature


def classify(signature: LoadedSignature, serialized: Sequence[bytes], compute: Compute) -> Labelled:
    """For each example its labels with their scores."""
    computed = _computed(signature, serialized, compute)
    shape = next(iter(computed.values())).shape
    labels = computed.get(CLASSES, np.full(shape, b"", object))
    numbers = computed.get(SCORES, np.zeros(shape))
    return [
        [(label.decode(errors="replace"), float(score)) for label, score in zip(*row, strict=True)]
        for row in zip(np.atleast_2d(labels), np.atleast_2d(numbers), strict=True)
    ]


def regress(
    signature: LoadedSignature, serialized: Sequence[bytes], compute: Compute
) -> list[float]:
    """One number for each example."""
    numbers = _computed(signature, serialized, compute)[OUTPUTS].ravel()
    if len(numbers) != len(serialized):
        raise HttpError(400, f"Expected {len(serialized)} outputs, got {len(numbers)}")
    return [float(value) for value in numbers]


def _computed(
    signature: LoadedSignature, serialized: Sequence[bytes], compute: Compute
) -> dict[str, Array]:
    array = np.empty(len(serialized), dtype=object)
    array[:] = list(serialized)
    return compute(signature, {INPUTS: array})


def _serialized(shared: dict[str, Any], features: object) -> bytes:
    if not isinstance(features, dict):
        raise HttpError(400, "Example must be JSON object but got something else")
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
            raise HttpError(400, f"Example feature {name} has values of more than one type")
    serialized: bytes = example.SerializeToString()
    return serialized
