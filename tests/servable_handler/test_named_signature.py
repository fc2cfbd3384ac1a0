"""A signature that the body names: it is called, and a refusal explains it and no other."""

import itertools
import json
from typing import Any

import grpc
import numpy as np
import pytest

from servable_handler.settings import Settings
from servable_tensors import wire
from servable_tensors.tensors import to_proto
from tests.servable_handler.conftest import Ask
from tests.servable_handler.fake_model_server import FakeModelServer

TWO = {"a": [1], "b": ["x"]}
JSON, NPZ, PROTOBUF = "application/json", "application/x-npz", "application/x-protobuf"


def message(signature: str, **arrays: Any) -> bytes:
    request = wire.PredictRequest(model_spec={"name": "m", "signature_name": signature})
    for name, array in arrays.items():
        request.inputs[name].CopyFrom(to_proto(array))
    return bytes(request.SerializeToString())


def refusing(method: str, body: bytes, context: Any) -> bytes:
    if method == "Predict":
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")
    return FakeModelServer.grpc_answer(FakeModelServer(), method, body, context)


@pytest.mark.parametrize(
    "request_",
    [
        {"signature_name": "two", "inputs": TWO},
        {"inputs": TWO, "signature_name": "two"},
        {"instances": [{"a": 1, "b": "x"}], "signature_name": "two"},
    ],
)
def test_the_signature_that_json_names_is_called(request_: dict[str, Any], ask: Ask) -> None:
    for accept, attributes, transport in itertools.product(
        [JSON, NPZ], [None, "tfs-signature-name=serving_default"], ["auto", "grpc", "rest"]
    ):
        status, answer, _ = ask(
            json.dumps(request_).encode(),
            accept_header=accept,
            custom_attributes=attributes,
            settings=Settings(transport=transport),
        )
        assert (status, b"no input of the signature" in answer) == (200, False), transport


def test_the_signature_that_a_message_names_is_called(ask: Ask) -> None:
    body = message("two", a=np.array([1], np.int64), b=np.array([b"x"], object))
    for transport in ("auto", "rest"):
        assert ask(body, PROTOBUF, settings=Settings(transport=transport))[0] == 200


def test_a_refusal_of_json_explains_the_signature_that_it_names(
    server: FakeModelServer, ask: Ask
) -> None:
    server.rest_answer = 400, b'{"error": "no"}'
    _, answer, _ = ask(b'{"signature_name": "two", "inputs": {"a": [1], "b": [2]}}')
    assert json.loads(answer)["error"].startswith("b: holds 2, no string")
    _, answer, _ = ask(json.dumps({"signature_name": "two", "inputs": TWO}).encode())
    assert json.loads(answer)["error"] == "no"


def test_a_refusal_of_a_message_explains_the_signature_that_it_names(
    server: FakeModelServer, ask: Ask
) -> None:
    server.grpc_answer = refusing  # type: ignore[method-assign]
    body = message("two", a=np.array([1.5], np.float32), b=np.array([b"x"], object))
    assert json.loads(ask(body, PROTOBUF)[1])["error"].startswith("a: got float32 [1]")
    body = message("two", a=np.array([1], np.int64), b=np.array([b"x"], object))
    assert json.loads(ask(body, PROTOBUF)[1])["error"] == "the model server refuses: no"
