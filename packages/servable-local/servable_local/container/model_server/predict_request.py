"""The JSON body of a :predict call becomes one array per input of the signature.

Row form: {"instances": [...]}; columnar form: {"inputs": ...}.
Source: https://www.tensorflow.org/tfx/serving/api_rest and json_tensor.cc beside it
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from servable_local.container.http_messages import HttpError
from servable_local.container.model_server.json_tensors import is_base64, to_array
from servable_tensors.tensors import Array

DEFAULT_SIGNATURE = "serving_default"


class PredictRequest(NamedTuple):
    """`rows` says whether the answer is due as rows ("predictions") or columns ("outputs")."""

    signature: str
    arrays: dict[str, Array]
    rows: bool


def parse(body: bytes, signatures: Mapping[str, Mapping[str, str]]) -> PredictRequest:
    """Read a request to one of the `signatures`: name -> input -> type.

    Raises `HttpError`, in the words of TensorFlow Serving, for anything else than a request.
    """
    request = json_object(body)
    signature = request.get("signature_name", "")
    if not isinstance(signature, str):
        raise HttpError(400, "'signature_name' key must be a string value.")
    signature = signature or DEFAULT_SIGNATURE
    if signature not in signatures:
        raise HttpError(400, f'Serving signature name: "{signature}" not found in signature def')
    inputs = signatures[signature]
    if "instances" in request:
        if "inputs" in request:
            raise HttpError(
                400,
                "Not formatted correctly expecting only one of 'inputs' or 'instances' "
                "keys to exist ",
            )
        return PredictRequest(signature, _from_rows(request["instances"], inputs), True)
    if "inputs" in request:
        return PredictRequest(signature, _from_columns(request["inputs"], inputs), False)
    raise HttpError(400, "Missing 'inputs' or 'instances' key")


def json_object(body: bytes) -> dict[str, Any]:
    """The object of a request's body. Raises `HttpError`."""
    if not body:
        raise HttpError(400, "JSON Parse error: The document is empty")
    try:
        request = json.loads(body)
    # A number of more than 4300 digits is a ValueError too; deep nesting is the other one.
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"JSON Parse error: {error}") from None
    if not isinstance(request, dict):
        raise HttpError(400, "JSON Value is not object")
    return request


def _from_columns(value: object, inputs: Mapping[str, str]) -> dict[str, Array]:
    if not isinstance(value, dict) or is_base64(value):
        if len(inputs) > 1:
            raise HttpError(
                400,
                "inputs is a plain value/list, but expecting an object as multiple "
                "input tensors required as per tensorinfo_map",
            )
        return {name: to_array(value, dtype) for name, dtype in inputs.items()}
    for name in inputs:
        if name not in value:
            raise HttpError(400, f"Missing named input: {name} in 'inputs' object.")
    return {name: to_array(value[name], dtype) for name, dtype in inputs.items()}


def _from_rows(rows: object, inputs: Mapping[str, str]) -> dict[str, Array]:
    if not isinstance(rows, list):
        raise HttpError(400, "Excepting 'instances' to be an list/array")
    if not rows:
        raise HttpError(400, "No values in 'instances' array")
    named = isinstance(rows[0], dict) and not is_base64(rows[0])
    if not named and len(inputs) > 1:
        raise HttpError(
            400,
            "instances is a plain list, but expecting list of objects as multiple "
            "input tensors required as per tensorinfo_map",
        )
    for number, row in enumerate(rows):
        if named != (isinstance(row, dict) and not is_base64(row)):
            expected, got = ("object", "list") if named else ("value/list", "object")
            raise HttpError(
                400, f"Expecting {expected} but got {got} at item {number} of input list"
            )
        if named and row.keys() != inputs.keys():
            raise HttpError(
                400,
                f"Failed to process element: {number} of 'instances' list. JSON object: "
                f"{json.dumps(row)[:200]} keys must be equal to: {','.join(inputs)}",
            )
    columns = {name: [row[name] for row in rows] if named else rows for name in inputs}
    return {name: _column(columns[name], name, dtype) for name, dtype in inputs.items()}


def _column(values: list[Any], name: str, dtype: str) -> Array:
    try:
        return to_array(values, dtype)
    except HttpError:
        # The whole column at once is quick; which row is at fault only matters now.
        first = None
        for number, value in enumerate(values):
            prefix = f"Failed to process element: {number} key: {name} of 'instances' list. Error: "
            try:
                array = to_array(value, dtype)
            except HttpError as single:
                raise HttpError(400, prefix + single.message) from None
            first = array if first is None else first
            if array.shape != first.shape:
                shapes = f"{list(first.shape)} but got: {list(array.shape)}"
                raise HttpError(400, f"{prefix}Expecting shape {shapes}") from None
        raise
