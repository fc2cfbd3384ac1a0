"""The model server's gRPC, as a handler reaches it."""

from typing import Any

import numpy as np
import pytest

from servable_tensors import wire
from tests.conformance.asking import Endpoint

pytestmark = pytest.mark.long

FLOAT = wire.DataType["DT_FLOAT"]


def _request(
    rows: int = 1, *, model: str = "numbers", signature: str = "", content: bool = False
) -> bytes:
    request = wire.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, signature
    tensor = request.inputs["x"]
    tensor.dtype = FLOAT
    for size in (rows, 2):
        tensor.tensor_shape.dim.add(size=size)
    values = np.arange(2 * rows, dtype=np.float32)
    if content:
        tensor.tensor_content = values.tobytes()
    else:
        tensor.float_val.extend(values.tolist())
    data: bytes = request.SerializeToString()
    return data


def _predicted(coded: Endpoint, request: bytes) -> Any:
    answer = coded.do("grpc_predict", request)
    assert answer.status_code == 200, answer.text
    return wire.PredictResponse.FromString(answer.content)


def test_tensors_versions_and_outputs_are_those_of_the_request(coded: Endpoint) -> None:
    for content in [True, False]:
        found = _predicted(coded, _request(2, content=content)).outputs["y"]
        assert list(found.float_val) == [0.0, 3.0, 6.0, 9.0]
    found = _predicted(coded, _request()).outputs["y"]
    assert (found.tensor_content, len(found.float_val)) == (b"", 2)
    assert _predicted(coded, _request()).model_spec.version.value == 2

    request = wire.PredictRequest.FromString(_request())
    request.model_spec.version.value = 1
    found = _predicted(coded, request.SerializeToString()).outputs["y"]
    assert list(found.float_val) == [0.0, 2.0]

    request = wire.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "numbers", "two"
    for name, dtype, field in (
        ("whole", "DT_INT64", "int64_val"),
        ("part", "DT_FLOAT", "float_val"),
    ):
        request.inputs[name].dtype = wire.DataType[dtype]
        request.inputs[name].tensor_shape.dim.add(size=1)
        getattr(request.inputs[name], field).append(1)
    request.output_filter.append("sum")
    assert list(_predicted(coded, request.SerializeToString()).outputs) == ["sum"]


def test_a_refusal_has_grpcs_code_and_only_requests_may_be_large(coded: Endpoint) -> None:
    for request_bytes, code in [
        (_request(model="other"), "NOT_FOUND"),
        (_request(signature="none"), "INVALID_ARGUMENT"),
        (_request(signature="two"), "INVALID_ARGUMENT"),
        (b"", "INVALID_ARGUMENT"),
    ]:
        assert coded.do("grpc_error", request_bytes).text == code
    answer = coded.do("grpc_error", _request(signature="large"))
    assert answer.text == "RESOURCE_EXHAUSTED"
    found = _predicted(coded, _request(600_000, signature="batch", content=True))
    assert found.outputs["rows"].int_val[0] == 600_000


def test_the_status_of_every_version_is_available_on_the_contexts_port(coded: Endpoint) -> None:
    request = wire.GetModelStatusRequest(model_spec={"name": "numbers"})
    answer = coded.do("grpc_status", request.SerializeToString())
    states = wire.GetModelStatusResponse.FromString(answer.content).model_version_status
    assert sorted((one.version, one.state) for one in states) == [(1, 30), (2, 30)]
    request = wire.GetModelStatusRequest(model_spec={"name": "numbers"})
    assert coded.do("grpc_port", request.SerializeToString()).text == "answered"
