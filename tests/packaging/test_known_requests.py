"""Requests and answers that are known beforehand: what the container would refuse of them is said."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infra.parameters.batch.job import OF_LINES
from infra.parameters.rollout import CONTENT_TYPES
from model_packaging.requests.json_requests import RequestValueError
from model_packaging.requests.known_requests import (
    TYPES_READ,
    KnownRequest,
    Reader,
    check_batch,
    check_examples,
    check_response,
    explain_unbatchable,
    read_request,
)
from model_packaging.saved_model.reading import SavedModelInfo, SignatureInfo, TensorInfo
from servable.answers.outputs import _READERS
from servable_tensors import wire
from servable_tensors.codecs import CODECS
from servable_tensors.text_bodies import TYPES_OF_JSON_LINES
from tests.checkouts import ROOT

Shape = tuple[int | None, ...] | None


def spec(dtype: str, shape: Shape) -> TensorInfo:
    return TensorInfo(name="t:0", dtype=dtype, shape=shape)


def signature(
    inputs: dict[str, TensorInfo], outputs: dict[str, TensorInfo], **more: Any
) -> SignatureInfo:
    method = f"tensorflow/serving/{more.pop('method', 'predict')}"
    return SignatureInfo(inputs=inputs, outputs=outputs, method=method, **more)


def model(**signatures: SignatureInfo) -> SavedModelInfo:
    return SavedModelInfo(
        folder=Path("model/1"), tags=frozenset({"serve"}), tensorflow_version="2.20.0",
        signatures=signatures, assets=(), has_variables=False, variable_bytes=0, has_warm_up=False,
    )  # fmt: skip


ONE = signature({"x": spec("float32", (None, 3))}, {"y": spec("float32", (None,))})
TWO = signature(
    {"ids": spec("int64", (None, 2)), "words": spec("string", (None,))},
    {"label": spec("string", (None,)), "score": spec("float32", (None, 2))},
)
TEXTS = signature({"text": spec("string", (None,))}, {"y": spec("bool", (None,))})
PLAIN, NAMED, WORDS = (model(serving_default=one) for one in (ONE, TWO, TEXTS))
JSON, CSV, NPY, PROTOBUF = (
    "application/json", "text/csv", "application/x-npy", "application/x-protobuf",
)  # fmt: skip


def read(
    body: bytes | str,
    info: SavedModelInfo = PLAIN,
    sent_as: str = JSON,
    reader: Reader = Reader.NGINX,
) -> KnownRequest | None:
    return read_request(body.encode() if isinstance(body, str) else body, sent_as, info, reader)


def refused(*arguments: Any, **more: Any) -> str:
    with pytest.raises(RequestValueError) as caught:
        read(*arguments, **more)
    return str(caught.value)


def saved(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def message(**inputs: Any) -> bytes:
    request = wire.PredictRequest()
    for name, value in inputs.items():
        request.inputs[name].dtype = {"float32": 1, "int32": 3}[value.dtype.name]
        request.inputs[name].tensor_content = value.tobytes()
        for size in value.shape:
            request.inputs[name].tensor_shape.dim.add(size=size)
    return bytes(request.SerializeToString())


@pytest.mark.parametrize(("body", "info", "rows"), [
    ('{"instances": [[1, 2, 3], [4, 5, 6.5]]}', PLAIN, 2),
    ('{"instances": [{"x": [1, 2, 3]}]}', PLAIN, 1),
    ('{"inputs": [[1, 2, 3]]}', PLAIN, 1),
    ('{"inputs": {"x": [[1, 2, NaN]], "other": "passed over"}}', PLAIN, 1),
    ('{"signature_name": "", "inputs": [[1, 2, 3]]}', PLAIN, 1),
    ("[[1, 2, 3], [1, 2, 3]]", PLAIN, 2),
    ("[1, 2, 3]", PLAIN, 1),
    ("[1, 2, 3]\n[4, 5, 6]\n", PLAIN, 2),
    ('{"instances": [{"ids": [1, 2], "words": "a"}]}', NAMED, 1),
    ('{"instances": [{"ids": [1, 2], "words": {"b64": "AA=="}}]}', NAMED, 1),
    ('{"inputs": {"ids": [[1, 2]], "words": ["a"]}}', NAMED, 1),
    ('{"instances": ["a", {"b64": "AAE="}]}', WORDS, 2),
    ('{"instances": [{"b64": "AAE="}]}', WORDS, 1),
])  # fmt: skip
def test_json_that_the_model_takes_is_read(body: str, info: SavedModelInfo, rows: int) -> None:
    found = read(body, info)
    assert found is not None
    assert {shape[0] for shape in found.shapes.values()} == {rows}


@pytest.mark.parametrize(("body", "info", "says"), [
    ("", PLAIN, "is empty"),
    ('{"instances": [[1, 2, 3]', PLAIN, "is not JSON: Expecting ',' delimiter: line 1"),
    ('{"instances": []}', PLAIN, '"instances" must be a list of at least one row'),
    ('{"instances": [[1, 2]]}', PLAIN, "x has shape [1, 2]; the signature expects [any, 3]"),
    ('{"inputs": [1, 2, 3]}', PLAIN, "x has shape [3]; the signature expects [any, 3]"),
    ('{"instances": [{"z": [1, 2, 3]}]}', PLAIN, "gives z; the signature expects x"),
    ('{"inputs": {"z": [[1, 2, 3]]}}', PLAIN, "gives z; the signature expects x"),
    ('{"instances": [["1", 2, 3]]}', PLAIN, "x holds '1'; the signature expects float32"),
    ('{"instances": [[1, 2, 3], [1, 2]]}', PLAIN, "x is ragged: 2 where other rows have 3"),
    ('{"examples": [{"x": 1}]}', PLAIN, 'must be an object with either "inputs"'),
    ('{"signature_name": "fit", "inputs": 1}', PLAIN, "names the signature 'fit'; the model has"),
    ('{"instances": [[1, 2]]}', NAMED, "names no inputs; the signature expects ids, words"),
    ('{"instances": [{"ids": [1, 2.0], "words": "a"}]}', NAMED,
     "ids holds 2.0; the signature expects int64"),
    ('{"instances": [{"b64": "a"}]}', WORDS, 'text contains invalid base64 in "b64"'),
    ('{"instances": [3]}', WORDS, "text holds 3; the signature expects string"),
])  # fmt: skip
def test_other_json_is_refused_with_the_reason(body: str, info: SavedModelInfo, says: str) -> None:
    assert refused(body, info).startswith(says)


def test_csv_is_read_line_by_line_and_of_what_code_reads_only_json_is_checked() -> None:
    found = read("1,2,3\n4,5,6\n", sent_as=CSV)
    assert found is not None
    assert found.shapes == {"x": (2, 3)}
    assert refused("1,2\n", sent_as=CSV) == "x has shape [1, 2]; the signature expects [any, 3]"
    assert read('{"text": "anything"}', reader=Reader.CODE) is None
    assert refused("{'x': 1}", reader=Reader.CODE).startswith("is not JSON: ")


def test_an_npy_file_is_read_by_its_header_where_a_handler_takes_it() -> None:
    assert refused(saved(np.zeros((1, 3), "float32")), sent_as=NPY) == (
        f"is sent as {NPY}; a container without code accepts application/json, "
        "application/jsonlines, application/jsons, text/csv"
    )
    for body in [b"PK", b"\x93NUMPY\x01\x00\x04\x00{}  ", b"\x93NUMPY"]:
        assert refused(body, sent_as=NPY, reader=Reader.SERVABLE) == "is not a .npy file"
    cases: list[tuple[Any, str | None]] = [
        (np.zeros((2, 3), "float32"), None),
        (np.zeros((2, 3), "float64"), "is float64; x expects float32"),
        (np.zeros((2, 4), "float32"), "has shape [2, 4]; the signature expects [any, 3]"),
        (np.zeros(3, ">f4"), "has shape [3]; the signature expects [any, 3]"),
    ]
    for array, says in cases:
        body = saved(array)
        if says is None:
            found = read(body, sent_as=NPY, reader=Reader.SERVABLE)
            assert found is not None
            assert found.shapes == {"x": array.shape}
        else:
            assert refused(body, sent_as=NPY, reader=Reader.SERVABLE) == says


def test_a_predict_request_is_held_against_the_signature() -> None:
    found = read(message(x=np.zeros((2, 3), "float32")), sent_as=PROTOBUF, reader=Reader.SERVABLE)
    assert found is not None
    assert found.shapes == {"x": (2, 3)}
    says = refused(message(x=np.zeros((2, 3), "int32")), sent_as=PROTOBUF, reader=Reader.SERVABLE)
    assert says == "gives x as int32; the signature expects float32"
    request = wire.PredictRequest.FromString(message(x=np.zeros((2, 3), "float32")))
    request.inputs["x"].tensor_content = bytes(20)
    says = refused(request.SerializeToString(), sent_as=PROTOBUF, reader=Reader.SERVABLE)
    assert says == "gives x of shape [2, 3] with 20 bytes of content; float32 needs 24"
    inputs = {**ONE.inputs, "scale": spec("float32", ())}
    info = model(serving_default=signature(inputs, dict(ONE.outputs), defaults=("scale",)))
    assert read(message(x=np.zeros((1, 3), "float32")), info, PROTOBUF, Reader.SERVABLE) is not None


ROWS = read('{"instances": [[1, 2, 3], [4, 5, 6]]}')
COLUMNS = read('{"inputs": [[1, 2, 3], [4, 5, 6]]}')
SEVERAL = read('{"instances": [{"ids": [1, 2], "words": "a"}]}', NAMED)


@pytest.mark.parametrize(("request_", "answer"), [
    (ROWS, {"predictions": [0.5, 1]}),
    (COLUMNS, {"outputs": [0.5, 1]}),
    (SEVERAL, {"predictions": [{"label": {"b64": "AA=="}, "score": [0.1, 0.9]}]}),
])  # fmt: skip
def test_an_answer_of_the_signatures_form_passes(request_: KnownRequest, answer: Any) -> None:
    check_response(json.dumps(answer).encode(), request_)


@pytest.mark.parametrize(("request_", "answer", "says"), [
    (ROWS, {"outputs": [1, 2]}, 'has no "predictions", the key of the response to "instances"'),
    (COLUMNS, {"predictions": [1, 2]}, 'has no "outputs", the key of the response to "inputs"'),
    (ROWS, {"error": "no"}, 'has no "predictions"'),
    (ROWS, {"predictions": [1]}, "has 1 rows; the request has 2"),
    (ROWS, {"predictions": [[1], [2]]}, "gives y of shape [2, 1]; the signature returns [any]"),
    (ROWS, {"predictions": ["a", "b"]}, "gives 'a' in y, which is float32"),
    (SEVERAL, {"predictions": [[1, 2]]}, "gives no names; the signature returns label, score"),
    (SEVERAL, {"predictions": [{"label": "a"}]}, "gives label; the signature returns label, score"),
])  # fmt: skip
def test_an_answer_of_another_form_fails(request_: KnownRequest, answer: Any, says: str) -> None:
    with pytest.raises(RequestValueError) as caught:
        check_response(json.dumps(answer).encode(), request_)
    assert str(caught.value).startswith(says)


def test_a_request_that_batching_refuses_is_refused() -> None:
    check_batch({"x": (64, 3)}, 64)
    cases: list[tuple[dict[str, tuple[int, ...]], str]] = [
        ({"x": (65, 3)}, "has 65 rows, which batching rejects: max_batch_size is 64"),
        ({"x": ()}, "gives x []; batching requires inputs with the same number of rows"),
        ({"a": (3,), "b": (4, 1)},
         "gives a [3], b [4, 1]; batching requires inputs with the same number"),
    ]  # fmt: skip
    for shapes, says in cases:
        with pytest.raises(RequestValueError) as caught:
            check_batch(shapes, 64)
        assert str(caught.value).startswith(says)


@pytest.mark.parametrize(("inputs", "outputs", "why"), [
    ({"x": (None, 3)}, {"y": (None,)}, None),
    ({"x": None}, {"y": None}, None),
    ({"x": (None, 3), "k": ()}, {"y": (None,)}, "its input k has shape []"),
    ({"x": (1, 3)}, {"y": (1,)}, "its input x has shape [1, 3]"),
    ({"x": (None, 3)}, {"y": (None,), "sum": ()}, "its output sum has shape []"),
    ({"x": (None, 3)}, {"y": (8, 2)}, "its output y has shape [8, 2]"),
    ({}, {"y": (None,)}, "it has no inputs"),
])  # fmt: skip
def test_batching_needs_an_open_first_dimension(
    inputs: dict[str, Shape], outputs: dict[str, Shape], why: str | None
) -> None:
    given, returned = (
        {name: spec("float32", shape) for name, shape in shapes.items()}
        for shapes in (inputs, outputs)
    )
    assert explain_unbatchable(signature(given, returned)) == why


def test_examples_of_a_classifier_are_its_rows_and_others_are_refused() -> None:
    def classify(examples: int) -> Any:
        request = wire.ClassificationRequest()
        request.input.example_list.examples.extend([b"example"] * examples)
        return request

    inputs, outputs = {"inputs": spec("string", (None,))}, {"y": spec("float32", (None, 2))}
    info = model(serving_default=signature(inputs, outputs, method="classify"))
    assert check_examples(classify(3), info, "classify") == {"inputs": (3,)}
    for predicts in (PLAIN, model(serving_default=signature(inputs, outputs))):
        with pytest.raises(RequestValueError, match="from a signature that doesn't support it"):
            check_examples(classify(1), predicts, "classify")
    with pytest.raises(RequestValueError, match="contains no example"):
        check_examples(classify(0), info, "classify")


def test_base64_may_lack_its_padding_but_not_a_part_of_it() -> None:
    for text in ["AAA=", "AAA", "AA A=\n"]:
        assert read(json.dumps({"instances": [{"b64": text}]}), WORDS) is not None
    for text in ["/9j/4AAQSkZJRg=", "AAA==", "AAAA="]:
        with pytest.raises(RequestValueError, match="padding characters"):
            read(json.dumps({"instances": [{"b64": text}]}), WORDS)


def test_every_content_type_of_the_handler_is_known_to_the_commands() -> None:
    assert set(TYPES_READ[Reader.SERVABLE]) == set(CODECS)
    assert set(_READERS) == set(CODECS)
    assert set(CONTENT_TYPES.values()) <= set(CODECS)
    assert set(TYPES_READ[Reader.NGINX]) <= set(CODECS)
    assert set(OF_LINES) == {CSV, *TYPES_OF_JSON_LINES}
    page = (ROOT / "docs/serving.md").read_text()
    assert [name for name in CODECS if name not in page] == []
