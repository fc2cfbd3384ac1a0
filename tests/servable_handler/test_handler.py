"""Every body and every answer, through the handler and a fake model server."""

import io
import itertools
import json
import logging
import os
from typing import Any

import falcon
import grpc
import numpy as np
import pytest

from servable_handler.handler import Handler
from servable_handler.hooks import Hooks, InputError
from servable_handler.settings import Settings
from servable_tensors import wire
from servable_tensors.codecs import JSON, NPY, NPZ, PROTOBUF
from servable_tensors.tensors import to_array
from tests.servable_handler.conftest import Ask, answer_of, npy, npz, predict_request
from tests.servable_handler.fake_model_server import FakeModelServer

X = np.array([[1, 2, 3], [4, 5, 6.5]], np.float32)
ROWS = b'{"instances": [[1, 2, 3], [4, 5, 6.5]]}'
SUMS = [6.0, 15.5]
REST, GRPC = Settings(transport="rest"), Settings(transport="grpc")


BODIES = [
    ("rows", JSON, ROWS),
    ("named-rows", JSON, b'{"instances": [{"x": [1, 2, 3]}, {"x": [4, 5, 6.5]}]}'),
    ("columns", JSON, b'{"inputs": {"x": [[1, 2, 3], [4, 5, 6.5]]}}'),
    ("one-column", JSON, b'{"inputs": [[1, 2, 3], [4, 5, 6.5]]}'),
    ("bare-list", JSON, b"[[1, 2, 3], [4, 5, 6.5]]"),
    ("json-lines", "application/jsonlines", b"[1, 2, 3]\n[4, 5, 6.5]\n"),
    ("csv", "text/csv", b"1,2,3\n4,5,6.5\n"),
    ("npy", NPY, npy(X)),
    ("npz", NPZ, npz(x=X)),
    ("protobuf", PROTOBUF, predict_request(x=X)),
]


def relayed(server: FakeModelServer) -> list[tuple[str, bytes]]:
    """What came, but for the question for signatures."""
    return [one for one in server.requests if one[0] != "GetModelMetadata"]


def sums(form: str, answer: bytes) -> Any:
    """The numbers of an answer, whatever its form."""
    if form == NPY:
        return np.load(io.BytesIO(answer)).tolist()
    if form == NPZ:
        return np.load(io.BytesIO(answer))["y"].tolist()
    if form == PROTOBUF:
        return to_array(wire.PredictResponse.FromString(answer).outputs["y"]).tolist()
    if form == JSON:
        return next(iter(json.loads(answer).values()))
    return [float(line) for line in answer.decode().split()]


FORMS = [JSON, "application/jsonlines", "text/csv", NPY]
FORMS += [NPZ, PROTOBUF]


@pytest.mark.parametrize(
    ("content_type", "body"), [one[1:] for one in BODIES], ids=[one[0] for one in BODIES]
)
def test_every_body_is_answered_in_every_form_over_every_transport(
    content_type: str, body: bytes, server: FakeModelServer
) -> None:
    for accept, settings in itertools.product(FORMS, [Settings(), REST, GRPC]):
        context = server.context(
            request_content_type=content_type, content_length=len(body), accept_header=accept
        )
        # A handler of its own, which has seen no body of this form.
        handler = Handler(settings, Hooks(), server.variables)
        status, answer, form = answer_of(handler, body, context)
        assert (settings, status, form, sums(accept, answer)) == (settings, 200, accept, SUMS)


def test_a_caller_that_accepts_anything_gets_the_form_it_sent_rows_or_columns(ask: Ask) -> None:
    own = {form: form for form in FORMS if form.startswith("application/x-")}
    for content_type, form in {**own, JSON: FORMS[0], "text/csv": FORMS[0]}.items():
        body = next(body for _, known, body in BODIES if known == content_type)
        assert ask(body, content_type, accept_header="*/*")[2] == form
    assert json.loads(ask(ROWS, settings=GRPC)[1]) == {"predictions": SUMS}
    assert json.loads(ask(b'{"inputs": [[1, 2, 3]]}', settings=GRPC)[1]) == {"outputs": [6.0]}


def test_json_and_a_predict_request_are_relayed_as_is(server: FakeModelServer, ask: Ask) -> None:
    body = b'  {"instances" : [ [1, 2,   3] ]}'
    ask(body)
    message = predict_request(x=X) + b"\xf8\x07\x01"  # a field that nobody knows
    ask(message, PROTOBUF)
    asked, (method, sent) = relayed(server)
    assert (asked, method) == (("/v1/models/m:predict", body), "Predict")
    assert sent.startswith(message)


def test_json_from_the_threshold_on_goes_over_grpc(server: FakeModelServer, ask: Ask) -> None:
    for settings in (Settings(grpc_from_bytes=len(ROWS) + 1), Settings("rest", grpc_from_bytes=1)):
        ask(ROWS, settings=settings)
    for _ in range(3):
        ask(ROWS, settings=Settings(grpc_from_bytes=len(ROWS)))
    shown = [method for method, _ in relayed(server)]
    assert shown == ["/v1/models/m:predict"] * 2 + ["Predict"] * 3
    # Each handler asks for the signature once.
    assert [method for method, _ in server.requests].count("GetModelMetadata") == 3


IMAGE = {"pixels": [[[1.0], [2.0]], [[3.0], [4.0]]], "size": 2.0}


def test_json_of_another_rank_than_the_signatures_is_refused_unsent_and_says_why(
    server: FakeModelServer, ask: Ask
) -> None:
    cases: list[dict[str, Any]] = [
        {"instances": [{"pixels": [1.0, 2.0], "size": 2.0}]},
        {"inputs": {"pixels": [1.0, 2.0], "size": [2.0]}},
        {"inputs": {"pixels": [[[[[1.0]]]]], "size": [2.0]}},
        {"instances": [{"size": 2.0, "pixels": 1.0}], "signature_name": "image"},
    ]
    for request_ in cases:
        answer = ask(json.dumps(request_).encode(), custom_attributes="tfs-signature-name=image")
        assert (answer[0], relayed(server)) == (400, [])

    body = b'{"signature_name": "image", "inputs": {"pixels": [1.0], "size": [2.0]}}'
    _, answer, _ = ask(body)
    wanted = "pixels: got 1 dimensions; the signature wants float32 [any, 2, 2, 1]. The signature"
    assert wanted in json.loads(answer)["error"]


def test_other_json_is_relayed_as_it_is(server: FakeModelServer, ask: Ask) -> None:
    server.rest_answer = 200, b"{}"
    requests: list[dict[str, Any]] = [
        {"signature_name": "image", "instances": [IMAGE, IMAGE]},
        # Of its size nothing is said: that is the model's to refuse.
        {"signature_name": "image", "inputs": {"pixels": [[[[1.0]]]], "size": [2.0]}},
        # Of inputs of fewer dimensions either: plain operations take any.
        {"signature_name": "image", "inputs": {"pixels": [[[[1.0]]]], "size": [[2.0]]}},
        {"signature_name": "serving_default", "instances": [1.0]},
        {"signature_name": "nope", "instances": [1.0]},
    ]
    bodies = [json.dumps(one).encode() for one in requests]
    for body in bodies:
        ask(body)
    assert relayed(server) == [("/v1/models/m:predict", body) for body in bodies]


def test_a_message_of_another_rank_than_the_signature_of_either_name_is_refused(ask: Ask) -> None:
    flat, attributes = np.ones(2, np.float32), "tfs-signature-name=image"
    for spec, status in [
        ({"signature_name": "image"}, 400),
        ({"signature_name": "image", "name": "m"}, 400),
        ({"signature_name": "image", "name": "other"}, 404),
        ({"signature_name": "echo_DT_FLOAT"}, 200),
    ]:
        assert ask(predict_request(spec=spec, pixels=flat, v=flat), PROTOBUF)[0] == status
    assert ask(predict_request(pixels=flat), PROTOBUF, custom_attributes=attributes)[0] == 400
    image = predict_request(pixels=np.ones((1, 1, 1, 1), np.float32))
    assert ask(image, PROTOBUF, custom_attributes=attributes)[0] == 200


def test_where_signatures_are_not_told_json_is_relayed(server: FakeModelServer, ask: Ask) -> None:
    server.rest_answer = 404, b'{"error": "no such model"}'
    answer = ask(ROWS, rest_uri=server.context().rest_uri.replace("/m:", "/other:"))
    assert answer[:2] == server.rest_answer


@pytest.mark.parametrize(("names", "values"), [
    (["float16", "float32", "float64"], [1.5, -2]),
    (["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"], []),
    (["bool"], [True, False]),
    (["complex64", "complex128"], [1 + 2j, 3]),
])  # fmt: skip
def test_a_npy_of_every_type_and_shape_comes_back_as_it_is(
    names: list[str], values: list[Any], ask: Ask
) -> None:
    for name, shape in itertools.product(names, [(2,), (), (0, 4)]):
        array = np.resize(np.array(values or [np.iinfo(name).min, np.iinfo(name).max], name), shape)
        told = {"custom_attributes": f"tfs-signature-name=echo_{name}"}
        status, answer, _ = ask(npy(array), NPY, accept_header="*/*", **told)
        back = np.load(io.BytesIO(answer))
        found = status, back.dtype, back.shape, back.tolist()
        assert found == (200, array.dtype, shape, array.tolist())


def test_strings_and_bfloat16_come_back_over_grpc(ask: Ask) -> None:
    numbers = np.array([1.5, 3.140625], np.float32)
    for name, body, content_type, values in [
        ("string", npy(np.array(["häll", "o"])), NPY, ["häll".encode(), b"o"]),
        ("string", b'{"inputs": [{"b64": "/w=="}]}', JSON, [b"\xff"]),
        ("bfloat16", npy(numbers), NPY, numbers.tolist()),
    ]:
        told = {"custom_attributes": f"tfs-signature-name=echo_{name}"}
        answer = ask(body, content_type, accept_header=NPY, **told)[1]
        assert np.load(io.BytesIO(answer)).tolist() == values


@pytest.mark.parametrize(("accept", "status"), [("text/csv", 400), (JSON, 200)])
def test_a_json_line_is_a_row_where_lines_are_answered(accept: str, status: int, ask: Ask) -> None:
    # As the image, which answers no lines, takes it: two rows of three numbers.
    body = b"[[1, 2, 3], [4, 5, 6.5]]\n"
    assert ask(body, "application/jsonlines", accept_header=accept)[0] == status


TWO = npz(a=np.array([1, 2]), b=np.array(["x", "y"]))


def test_several_outputs_stand_side_by_side_and_are_no_npy(ask: Ask) -> None:
    for accept, status, words in [
        ("text/csv", 200, b"1,x\n2,y\n"),
        ("application/jsonlines", 200, b'{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n'),
        (JSON, 200, b'{"outputs": {"a": [1, 2], "b": ["x", "y"]}}'),
        (NPY, 400, b"accept application/x-npz"),
    ]:
        told = {"custom_attributes": "tfs-signature-name=two", "accept_header": accept}
        found, answer, _ = ask(TWO, NPZ, **told)
        assert (found, words in answer, status == 400 or words == answer) == (status, True, True)


WANTED = "the signature wants float32 [any, 3]"
TEXT_IN_IT = b'{"instances": [[1, 2, "3"]]}'
NO_SUCH_SIGNATURE = {"custom_attributes": "tfs-signature-name=none"}


@pytest.mark.parametrize(("body", "content_type", "told", "status", "words"), [
    (npy(X.astype("f8")), NPY, {}, 400, f"x: got float64 [2, 3]; {WANTED}"),
    (npy(X[:, :2]), NPY, {}, 400, f"x: got float32 [2, 2]; {WANTED}"),
    (npy(X[0]), NPY, {}, 400, f"x: got float32 [3]; {WANTED}"),
    (npz(z=X), NPZ, {}, 400, "x: not given; 'z': given, and no input"),
    (npy(np.array([{}])), NPY, {}, 400, "x: no .npy of one tensor: it holds object"),
    (b"x", NPZ, {}, 400, "the body is no .npz"),
    (b"x", PROTOBUF, {}, 400, "the body is no PredictRequest"),
    (predict_request(x=X).replace(b"\x01x", b"\x01\xe9"), PROTOBUF, {}, 400, "the body is no"),
    (predict_request(x=X.astype("f8")), PROTOBUF, {}, 400, f"x: got float64 [2, 3]; {WANTED}"),
    (predict_request(z=X), PROTOBUF, {}, 400, "x: not given"),
    (TEXT_IN_IT, JSON, {"settings": GRPC}, 400, f'x: holds "3", no number; {WANTED}'),
    (b'{"instances": [[1, 2], [3]]}', JSON, {}, 400, "x: is ragged"),
    (b"{", JSON, {}, 400, "the body is no JSON"),
    (b"{}", "image/png", {}, 415, "Content-Type 'image/png' is not supported; send application/json"),
    (ROWS, JSON, {"model_version": "x"}, 400, "tfs-model-version: 'x' isn't a version"),
    (ROWS, JSON, {"method": "guess"}, 400, "tfs-method: 'guess' is unknown; send predict"),
    (npy(X), NPY, {"method": "classify"}, 400, "tfs-method: classify requires the same"),
    (npy(X), NPY, {"model_name": "other"}, 404, "Servable not found"),
    (npy(X), NPY, {"model_version": "7"}, 404, "Servable not found"),
    (npy(X), NPY, NO_SUCH_SIGNATURE, 400, "'none' is not one of the model's: echo_"),
])  # fmt: skip
def test_a_refusal_names_the_tensor_what_came_and_what_is_wanted(
    body: bytes, content_type: str, told: dict[str, Any], status: int, words: str, ask: Ask
) -> None:
    found, answer, form = ask(body, content_type, **told)
    assert (found, form, words in json.loads(answer)["error"]) == (status, JSON, True), answer


def test_errors_of_the_model_server_keep_or_get_words(server: FakeModelServer, ask: Ask) -> None:
    server.rest_answer = 404, b'{"error": "no such model"}'
    assert ask(ROWS)[:2] == (404, b'{"error": "no such model"}')
    server.rest_answer = 500, b"<html>"
    assert ask(ROWS)[:2] == (500, b'{"error": "the model server responded with status 500"}')
    full = b'{"error": "The batch scheduling queue to which this task was submitted is full"}'
    server.rest_answer = 503, full
    assert ask(ROWS)[0] == 429


@pytest.mark.long
def test_a_slow_model_is_504_at_the_earlier_deadline(server: FakeModelServer, ask: Ask) -> None:
    server.delay_seconds = 1
    assert ask(ROWS, timeout=0.2)[0] == 504
    assert ask(predict_request(x=X), PROTOBUF, timeout=0.2)[0] == 504
    server.delay_seconds = 2
    assert ask(ROWS, settings=Settings(timeout_seconds=1))[0] == 504


def test_a_relayed_request_asks_what_it_or_headers_say(server: FakeModelServer, ask: Ask) -> None:
    two = {"custom_attributes": "tfs-signature-name=two"}
    cases: list[tuple[dict[str, Any], dict[str, Any], tuple[str, int, str]]] = [
        ({}, {}, ("m", 0, "")),
        ({}, {"model_name": "m", "model_version": "1"}, ("m", 1, "")),
        ({}, two, ("m", 0, "two")),
        ({"name": "mine"}, {}, ("mine", 0, "")),
    ]
    for spec, told, wanted in cases:
        ask(predict_request(spec=spec, x=X), PROTOBUF, **told)
        sent = wire.PredictRequest.FromString(relayed(server)[-1][1]).model_spec
        assert (sent.name, sent.version.value, sent.signature_name) == wanted


def test_a_classification_is_relayed_to_its_own_method(server: FakeModelServer, ask: Ask) -> None:
    for given in ({}, {"example_list": {"examples": [b"\x0a\0"]}}):
        body = wire.ClassificationRequest(model_spec={"name": "m"}, input=given).SerializeToString()
        ask(body, PROTOBUF, method="classify", accept_header="*/*")
        assert server.requests[-1] == ("Classify", body)
    assert len(server.requests) == 2


def test_a_signature_of_attributes_is_put_into_the_json(server: FakeModelServer, ask: Ask) -> None:
    ask(ROWS, custom_attributes="tfs-signature-name=two")
    assert json.loads(relayed(server)[0][1])["signature_name"] == "two"


def page(body: bytes, context: Any) -> dict[str, Any]:
    return {"x": [[float(len(word)) for word in body.split()]]}


def test_hooks_make_the_tensors_the_body_and_its_content_type(ask: Ask) -> None:
    answer = ask(b"a bb ccc", "text/html", hooks=Hooks(preprocess=page))
    assert json.loads(answer[1]) == {"predictions": [6.0]}
    hooks = Hooks(postprocess=lambda tensors, context: f"sum {tensors['y'][0]:g}")
    assert ask(b"[[1,2,3]]", hooks=hooks) == (200, b"sum 6", "text/plain; charset=utf-8")
    hooks = Hooks(postprocess=lambda tensors, context: (b"<p>", "text/html"))
    assert ask(b"[[1,2,3]]", hooks=hooks) == (200, b"<p>", "text/html")


def giving(value: Any) -> Any:
    """A hook that returns this value."""
    return lambda *_: value


def refusing(body: bytes, context: Any) -> Any:
    raise InputError("the page has no title")


def failing(*given: Any) -> Any:
    raise KeyError("the secret of the request")


def test_what_a_hook_raises_is_said_without_the_requests_content(
    ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    status, answer, _ = ask(b"", "text/html", hooks=Hooks(preprocess=refusing))
    assert (status, answer) == (400, b'{"error": "the page has no title"}')
    for name in ["preprocess", "postprocess"]:
        status, answer, _ = ask(b"[[1,2,3]]", hooks=Hooks(**{name: failing}))
        words = f"the hook {name} failed (KeyError in test_handler.py"
        assert (status, words in json.loads(answer)["error"]) == (500, True)
    answer = ask(b"[[1,2,3]]", hooks=Hooks(preprocess=failing))[1]
    assert b"secret" not in answer + caplog.text.encode()
    status, answer, _ = ask(b"", hooks=Hooks(preprocess=lambda body, context: {"x": [1.0]}))
    assert (status, b"the hook preprocess: x: got float32 [1]" in answer) == (500, True)


def test_a_request_is_one_line_at_debug_without_the_body_and_a_failure_one_at_warning(
    ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    ask(b"{}", "image/png")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    caplog.clear()
    caplog.set_level(logging.DEBUG, "servable")
    ask(ROWS)
    (line,) = [json.loads(record.message) for record in caplog.records if record.name == "servable"]
    assert (line["status"], line["bytes_in"], line["in"]) == (200, len(ROWS), JSON)
    ask(b'{"inputs": "a secret"}', settings=GRPC)
    assert "secret" not in caplog.text


PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACED = f"traceparent={PARENT},inference-id=order-42"


def test_a_log_line_has_the_trace_and_the_inference_id_that_are_valid(
    ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    for body in [ROWS, b"{"]:
        caplog.set_level(logging.DEBUG, "servable")
        ask(body, custom_attributes=TRACED)
        line = json.loads(caplog.records[-1].message)
        assert (line["traceparent"], line["inference_id"]) == (PARENT, "order-42")
    ask(ROWS, "image/png", custom_attributes=TRACED)
    assert json.loads(caplog.records[-1].message)["traceparent"] == PARENT
    for sent in ["traceparent=00-1-2-3", 'inference-id="}\n{"event": "forged"}']:
        caplog.set_level(logging.DEBUG, "servable")
        status, _, _ = ask(ROWS, custom_attributes=sent)
        line = caplog.records[-1].message
        assert (status, {"traceparent", "inference_id"} & json.loads(line).keys()) == (200, set())


@pytest.fixture
def handler(server: FakeModelServer) -> Handler:
    return Handler(Settings(), Hooks(), server.variables)


def test_a_trace_chooses_no_plan(server: FakeModelServer, handler: Handler) -> None:
    sent = ["traceparent=tfs-signature-name=image"]
    sent += [f"tfs-model-version=1,inference-id={number}" for number in range(3)]
    for one in sent:
        answer_of(handler, ROWS, server.context(content_length=len(ROWS), custom_attributes=one))
    plans = handler._plans._plans.values()
    assert [plan.call.signature for plan in plans] == [None, None]


def test_the_time_of_each_stage_is_a_header_where_it_is_asked_for(server: FakeModelServer) -> None:
    handler = Handler(Settings(timing_header=True), Hooks(), server.variables)
    context = server.context(content_length=len(ROWS))
    with pytest.raises(falcon.HTTPError) as raised:
        handler(io.BytesIO(ROWS), context)
    with pytest.raises(falcon.HTTPStatus) as answered:
        _ = raised.value.headers
    timing = dict(answered.value.headers)["Server-Timing"]
    stages = [one.partition(";dur=")[0] for one in timing.split(", ")]
    assert (answered.value.status[:3], stages) == ("200", ["read", "decode", "model"])


def test_after_a_fork_connections_are_made_anew(
    server: FakeModelServer, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = handler._plans.provide_plan(server.context(), None).model
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert handler._plans.provide_plan(server.context(), None).model is not before


def test_a_model_of_its_own_servers_is_asked_there(server: FakeModelServer) -> None:
    # As in multi-model mode, where no list of ports is told beforehand.
    handler = Handler(Settings(), Hooks(), {})
    body = predict_request(x=X)
    told = {"request_content_type": PROTOBUF, "content_length": len(body), "model_name": "m"}
    context = server.context(grpc_port=server.grpc_port, **told)
    assert json.loads(handler(io.BytesIO(body), context)[0]) == {"outputs": SUMS}


def test_a_body_is_as_long_as_it_says(server: FakeModelServer, handler: Handler) -> None:
    for length, sent, status in [
        (10**9, b"", 413),
        (100, b"short", 400),
        (None, ROWS, 200),
        (0, b"", 400),
    ]:
        context = server.context(request_content_type=JSON if sent else NPZ)
        context.content_length = length
        assert answer_of(handler, sent, context)[0] == status


def test_a_npy_of_another_type_or_order_is_not_taken_for_one_that_was_seen(ask: Ask) -> None:
    assert ask(npy(X), NPY, accept_header="*/*")[0] == 200
    assert ask(npy(X.view(np.int32)), NPY, accept_header="*/*")[0] == 400
    for array in (X + 1, np.asfortranarray(X + 1)):
        answer = ask(npy(array), NPY, accept_header="*/*")[1]
        assert np.load(io.BytesIO(answer)).tolist() == [9.0, 18.5]


def test_plans_are_few_and_none_is_kept_for_long_or_refused_headers(
    ask: Ask, server: FakeModelServer, handler: Handler
) -> None:
    assert [ask(ROWS, "text/plain")[0], ask(ROWS)[0], ask(ROWS, "text/plain")[0]] == [415, 200, 415]
    handler._plans.provide_plan(server.context(accept_header="x" * 3000), None)
    assert handler._plans._plans == {}
    for number in range(1000):
        handler._plans.provide_plan(server.context(accept_header=f"text/csv, x/{number}"), None)
    assert len(handler._plans._plans) <= 256


INT32 = {"custom_attributes": "tfs-signature-name=echo_int32"}
FLOAT32 = {"custom_attributes": "tfs-signature-name=echo_float32"}
TEXT = {"custom_attributes": "tfs-signature-name=echo_string"}


def test_a_value_of_preprocess_that_its_type_does_not_hold_is_400_and_named(
    server: FakeModelServer, ask: Ask
) -> None:
    cases: list[tuple[Any, dict[str, str], str]] = [
        ([2**40 + 7], INT32,
         "the hook preprocess: v: holds 1099511627783, which int32 can't represent"),
        ([3000000000], INT32,
         "v: holds 3000000000, which int32 can't represent; the signature wants int32"),
        (np.array([2**64 - 1], "u8"), INT32, "v: holds 18446744073709551615, which int32"),
        ([2**70], INT32, "v: holds 1180591620717411303424, which int32"),
        ([1e300], FLOAT32, "v: holds 1e+300, which float32 can't represent"),
    ]  # fmt: skip
    for made, told, words in cases:
        status, answer, _ = ask(b"", hooks=Hooks(preprocess=giving({"v": made})), **told)
        assert (status, words in json.loads(answer)["error"]) == (400, True), answer
        assert "Predict" not in dict(server.requests)


def test_lists_and_strings_of_preprocess_fit_the_types(server: FakeModelServer, ask: Ask) -> None:
    hooks = Hooks(preprocess=lambda body, context: {"v": [1, 255]})
    told = {"custom_attributes": "tfs-signature-name=echo_uint8"}
    assert ask(b"", hooks=hooks, **told)[1] == b'{"predictions": [1, 255]}'
    ask(b"", hooks=Hooks(preprocess=lambda body, context: {"v": ["a\0", b"b\0"]}), **TEXT)
    request = wire.PredictRequest.FromString(dict(server.requests)["Predict"])
    assert list(request.inputs["v"].string_val) == [b"a\0", b"b\0"]


def test_what_is_wrong_whatever_was_sent_is_the_hooks_mistake(ask: Ask) -> None:
    cases: list[tuple[Any, str]] = [
        (np.ma.masked_array([1, 2], [True, False]), "v: got a masked array"),
        ([1.5], "v: got float64 [1]"),
    ]
    for made, words in cases:
        answer = ask(b"", hooks=Hooks(preprocess=giving({"v": made})), **INT32)
        assert (answer[0], words in json.loads(answer[1])["error"]) == (500, True), answer
    cases = [
        ({"y": np.float32(1)}, "Object of type float32 is not JSON serializable"),
        ("\ud800", "a lone surrogate"),
    ]
    for made, words in cases:
        status, answer, _ = ask(b"[[1,2,3]]", hooks=Hooks(postprocess=giving(made)))
        assert (status, words in json.loads(answer)["error"]) == (500, True), answer


def bomb(count: int) -> bytes:
    request = wire.PredictRequest()
    for number in range(count):
        tensor = request.inputs[f"{number}"]
        tensor.dtype = 1
        tensor.tensor_shape.dim.add(size=1 << 20)
        tensor.float_val.append(0)
    return bytes(request.SerializeToString())


def test_explaining_a_refusal_makes_no_arrays_and_parses_no_long_text(
    server: FakeModelServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servable_tensors.codecs.to_array", None)
    status, answer, _ = ask(bomb(15), PROTOBUF)
    assert (status, b"x: not given; '" in answer) == (400, True), answer
    assert b"and 6 more" in answer
    server.rest_answer = 400, b'{"error": "no"}'
    monkeypatch.setattr("servable_tensors.codecs.parse", None)
    assert ask(b'{"instances": [' + b" " * (1 << 20) + b"[1]]}")[:2] == (400, b'{"error": "no"}')


def test_over_rest_strings_are_base64_and_one_value_for_many_is_refused(
    ask: Ask, server: FakeModelServer
) -> None:
    request = wire.PredictRequest()
    tensor = request.inputs["v"]
    tensor.dtype = 1
    tensor.tensor_shape.dim.add(size=1 << 20)
    tensor.float_val.append(0)
    answer = ask(request.SerializeToString(), PROTOBUF, settings=Settings("rest"), **FLOAT32)
    assert (answer[0], b"send every value" in answer[1]) == (400, True), answer
    body = predict_request(v=np.array([b"\xff", b"a"], object))
    ask(body, PROTOBUF, settings=Settings("rest"), **TEXT)
    assert json.loads(server.requests[-1][1])["inputs"] == [{"b64": "/w=="}, "a"]


def test_a_signature_that_the_body_names_is_called_and_no_other(ask: Ask) -> None:
    columns = {"a": [1], "b": ["x"]}
    requests: list[dict[str, Any]] = [
        {"signature_name": "two", "inputs": columns},
        {"inputs": columns, "signature_name": "two"},
        {"instances": [{"a": 1, "b": "x"}], "signature_name": "two"},
    ]
    for request, accept, attributes, transport in itertools.product(
        requests,
        [JSON, NPZ],
        [None, "tfs-signature-name=serving_default"],
        ["auto", "grpc", "rest"],
    ):
        told = {"accept_header": accept, "custom_attributes": attributes}
        settings = Settings(transport=transport)
        status, answer, _ = ask(json.dumps(request).encode(), settings=settings, **told)
        assert (status, b"no input of the signature" in answer) == (200, False), transport
    for settings in (Settings(), REST):
        assert ask(MESSAGE_FOR_TWO, PROTOBUF, settings=settings)[0] == 200


SPEC = {"name": "m", "signature_name": "two"}
B = np.array([b"x"], object)
MESSAGE_FOR_TWO = predict_request(spec=SPEC, a=np.array([1]), b=B)


def test_a_refusal_explains_the_signature_that_the_body_names(
    server: FakeModelServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(method: str, body: bytes, context: Any) -> bytes:
        if method == "Predict":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")
        return FakeModelServer.grpc_answer(server, method, body, context)

    monkeypatch.setattr(server, "grpc_answer", refuse)
    server.rest_answer = 400, b'{"error": "no"}'
    for body, content_type, words in [
        (b'{"signature_name": "two", "inputs": {"a": [1], "b": [2]}}', "", "b: holds 2, no string"),
        (b'{"signature_name": "two", "inputs": {"a": [1], "b": ["x"]}}', "", "no"),
        (predict_request(spec=SPEC, a=np.array([1.5], "f4"), b=B), PROTOBUF, "a: got float32 [1]"),
        (MESSAGE_FOR_TWO, PROTOBUF, "the model server refuses: no"),
    ]:
        assert json.loads(ask(body, content_type or JSON)[1])["error"].startswith(words)
