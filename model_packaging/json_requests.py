"""The JSON of TensorFlow Serving's REST API, by rows or by columns, becomes a PredictRequest.

Source: https://www.tensorflow.org/tfx/serving/api_rest#predict_api
"""

from collections.abc import Mapping
from typing import Any

from model_packaging.json_tensors import JsonValueError, tensor
from model_packaging.saved_model.info import DEFAULT_SIGNATURE, SavedModelInfo, TensorSpec
from servable_tensors import wire


def predict_request(request: Any, info: SavedModelInfo, *, model: str) -> Any:
    """The wire.PredictRequest of {"instances": …} or {"inputs": …}. Raises `JsonValueError`."""
    if not isinstance(request, dict) or ("instances" in request) == ("inputs" in request):
        raise JsonValueError(
            'must be an object with either "inputs" (columns) or "instances" (rows)'
        )
    name = request.get("signature_name", DEFAULT_SIGNATURE)
    if not isinstance(name, str) or name not in info.signatures:
        raise JsonValueError(
            f"asks for the signature {name!r}; there are {_listed(info.signatures)}"
        )
    specs = info.signatures[name].inputs
    columns = _by_column(request, specs)
    if set(columns) != set(specs):
        raise JsonValueError(f"gives {_listed(columns)}; the signature takes {_listed(specs)}")
    message = wire.PredictRequest()
    message.model_spec.name = model
    message.model_spec.signature_name = name
    for key, value in sorted(columns.items()):
        try:
            message.inputs[key].CopyFrom(tensor(value, specs[key]))
        except JsonValueError as bad:
            raise JsonValueError(f"{key} {bad}") from None
    return message


def _by_column(request: dict[str, Any], specs: Mapping[str, TensorSpec]) -> dict[str, Any]:
    if "inputs" in request:
        columns = request["inputs"]
        return columns if _is_named(columns) else _only(specs, columns)
    rows = request["instances"]
    if not isinstance(rows, list) or not rows:
        raise JsonValueError('"instances" must be a list of at least one row')
    if not all(_is_named(row) for row in rows):
        return _only(specs, rows)
    if any(set(row) != set(rows[0]) for row in rows):
        raise JsonValueError("has rows with different inputs")
    return {key: [row[key] for row in rows] for key in rows[0]}


def _is_named(value: Any) -> bool:
    """Whether inputs are given by name; {"b64": …} is a value."""
    return isinstance(value, dict) and set(value) != {"b64"}


def _only(specs: Mapping[str, TensorSpec], value: Any) -> dict[str, Any]:
    if len(specs) != 1:
        raise JsonValueError(f"names no inputs; the signature takes {_listed(specs)}")
    return dict.fromkeys(specs, value)


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"
