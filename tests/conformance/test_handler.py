"""What inference.py is told, what becomes of what it returns or raises, and the gRPC that it reaches."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servable_tensors import wire
from tests.conformance.asking import Endpoint
from tests.conformance.conftest import Double

pytestmark = pytest.mark.long

ROW = {"instances": [[1.0, 2.0]]}


def _context(coded: Endpoint, attributes: str = "") -> dict[str, object]:
    found: dict[str, object] = coded.do("the_context", attributes=attributes).json()
    return found


def test_the_context_has_the_containers_fields_and_what_the_header_names(coded: Endpoint) -> None:
    assert coded.do("fields").json() == [
        "model_name", "model_version", "method", "rest_uri", "grpc_port", "channel",
        "custom_attributes", "request_content_type", "accept_header", "content_length", "timeout",
    ]  # fmt: skip
    found = _context(coded)
    assert [found[name] for name in ("model_name", "model_version", "method")] == [None] * 3
    assert str(found["rest_uri"]).endswith("/v1/models/numbers:predict")
    assert (found["channel"], str(found["grpc_port"]).isdecimal()) == ("grpc", True)
    assert found["timeout"] == 60.0  # of an image of 2.20 where nothing is set
    for attribute, field, value in [
        ("tfs-model-name=words", "model_name", "words"),
        ("tfs-model-version=1", "model_version", "1"),
        ("tfs-method=classify", "method", "classify"),
    ]:
        assert _context(coded, attribute)[field] == value
    found = _context(coded, "tfs-model-name=b,tfs-model-version=3,tfs-method=regress")
    assert str(found["rest_uri"]).endswith("/v1/models/b/versions/3:regress")
    given = "trace=17,tfs-model-version=1"
    assert _context(coded, given)["custom_attributes"] == f"do=the_context,{given}"


def test_any_type_and_body_reaches_the_handler_as_it_is(coded: Endpoint) -> None:
    answer = coded.post(b"{}", None, attributes="do=the_context")
    assert answer.json()["request_content_type"] == "application/json"
    answer = coded.post(b"x", "application/x-npy", attributes="do=echo")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/x-npy")
    answer = coded.post(b"{}", attributes="do=the_context", Accept="application/x-npy")
    assert answer.json()["accept_header"] == "application/x-npy"
    assert coded.do("size", b"12345").json() == [5, 5]
    body = bytes(range(256)) * 4000
    assert coded.do("echo", body).content == body


def test_a_text_bytes_or_nothing_is_answered(coded: Endpoint) -> None:
    assert coded.do("pass_on", ROW).json() == {"predictions": [[3.0, 6.0]]}
    assert coded.do("a_string").content == "grüße".encode()
    answer = coded.do("some_bytes")
    assert answer.content == b"\x00\xff"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    for name in ("nothing", "a_dict"):
        answer = coded.do(name)
        assert (answer.status_code, answer.content) == (200, b"")


def test_an_exception_is_500_and_falcons_errors_are_as_they_are(coded: Endpoint) -> None:
    assert [coded.do(name).status_code for name in ("a_bare_dict", "no_such_name")] == [500, 500]
    answer = coded.do("an_exception")
    assert (answer.status_code, answer.json()) == (500, {"error": "the shelf is empty"})
    answer = coded.do("a_refusal")
    assert (answer.status_code, answer.json()["title"]) == (400, "No")
    answer = coded.do("too_many")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "3")
    assert coded.post(ROW, attributes="tfs-model-version=1=1").status_code == 400


def test_the_code_has_its_lib_one_import_and_the_variables(coded: Endpoint) -> None:
    assert coded.do("from_lib").text == "found"
    shown = coded.do("the_process").json()
    assert shown["imported_in"] == shown["parent"] != shown["pid"]
    found = coded.do("the_environment", ["OMP_NUM_THREADS", "TFS_DEFAULT_MODEL_NAME"]).json()
    assert found == {"OMP_NUM_THREADS": "1", "TFS_DEFAULT_MODEL_NAME": "numbers"}


def test_the_log_has_what_code_prints_and_each_variable_with_its_key(
    coded_double: Double, folder: Path
) -> None:
    coded_double.do("a_print")
    log = (folder / "coded.log").read_text()
    assert "said on standard output" in log
    assert "container.gunicorn_threads: SAGEMAKER_GUNICORN_THREADS=" in log
    assert "variables have no effect on this endpoint: SAGEMAKER_GUNICORN_THREADS" in log


def _request(
    rows: int = 1, *, model: str = "numbers", signature: str = "", content: bool = False
) -> bytes:
    request = wire.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, signature
    tensor = request.inputs["x"]
    tensor.dtype = wire.DataType["DT_FLOAT"]
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
    response = _predicted(coded, _request())
    found = response.outputs["y"]
    assert (found.tensor_content, len(found.float_val)) == (b"", 2)
    assert response.model_spec.version.value == 2

    request = wire.PredictRequest.FromString(_request())
    request.model_spec.version.value = 1
    found = _predicted(coded, request.SerializeToString()).outputs["y"]
    assert list(found.float_val) == [0.0, 2.0]

    request = wire.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "numbers", "two"
    for name, dtype in (("whole", "INT64"), ("part", "FLOAT")):
        request.inputs[name].dtype = wire.DataType[f"DT_{dtype}"]
        request.inputs[name].tensor_shape.dim.add(size=1)
        getattr(request.inputs[name], f"{dtype.lower()}_val").append(1)
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
    request = wire.GetModelStatusRequest(model_spec={"name": "numbers"}).SerializeToString()
    answer = coded.do("grpc_status", request)
    states = wire.GetModelStatusResponse.FromString(answer.content).model_version_status
    assert sorted((one.version, one.state) for one in states) == [(1, 30), (2, 30)]
    assert coded.do("grpc_port", request).text == "answered"
