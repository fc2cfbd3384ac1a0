"""The JSON of TensorFlow Serving's REST interface, read and written."""

import json
from collections.abc import Mapping

import numpy as np
import pytest

from servable_local.container.http_messages import HttpError
from servable_local.container.model_server.answers import format_columns, format_rows
from servable_local.container.model_server.predict_request import PredictRequest, parse_request

TWO = {"ids": "int64", "vals": "float32"}


def _parse(request: object, inputs: Mapping[str, str]) -> PredictRequest:
    return parse_request(json.dumps(request).encode(), {"serving_default": inputs, "other": inputs})


def _refusal(request: object, inputs: Mapping[str, str]) -> str:
    with pytest.raises(HttpError) as refusal:
        _parse(request, inputs)
    return refusal.value.message


def test_rows_and_columns_become_arrays_of_the_signatures_types() -> None:
    arrays = _parse({"inputs": {"ids": [[1]], "vals": [[2]]}}, TWO).arrays
    assert [arrays[name].dtype.name for name in TWO] == ["int64", "float32"]

    rows = [{"ids": [1, 2], "vals": 0.5}, {"ids": [3, 4], "vals": 1.5}]
    arrays = _parse({"instances": rows}, TWO).arrays
    assert {n: a.tolist() for n, a in arrays.items()} == {
        "ids": [[1, 2], [3, 4]],
        "vals": [0.5, 1.5],
    }
    cases: list[object] = [{"instances": [1, 2]}, {"inputs": [1, 2]}]
    for request_ in cases:
        assert _parse(request_, {"x": "int32"}).arrays["x"].tolist() == [1, 2]
    assert _parse({"signature_name": "other", "inputs": [1]}, {"x": "int64"}).signature == "other"
    for number in [2**24 - 1, 1e38, 2**70]:
        assert _parse({"inputs": [number]}, {"x": "float32"}).arrays["x"] == [np.float32(number)]

    cases = [{"b64": "AP8="}, [{"b64": "AP8="}]]
    for value in cases:
        found = _parse({"inputs": {"x": value}}, {"x": "string"}).arrays["x"]
        assert found.ravel().tolist() == [b"\x00\xff"]
    arrays = _parse({"instances": ["é"]}, {"x": "string"}).arrays
    assert arrays["x"].tolist() == ["é".encode()]


def test_what_is_no_request_is_refused_in_tensorflow_servings_words() -> None:
    cases: list[tuple[object, str]] = [
        ({}, "Missing 'inputs' or 'instances' key"),
        ([], "JSON Value is not object"),
        ({"inputs": {"ids": 1}}, "Missing named input: vals in 'inputs' object."),
        ({"inputs": {"ids": 1.5, "vals": 1}}, "1.5 Type: Number is not of expected type: int64"),
        ({"inputs": {"ids": True, "vals": 1}}, "true Type: True is not of expected type: int64"),
        ({"inputs": {"ids": "a", "vals": 1}}, '"a" Type: String is not of expected type: int64'),
        ({"inputs": {"ids": 2**63, "vals": 1}}, "is not of expected type: int64"),
        ({"inputs": {"ids": 1, "vals": 2**24}}, "16777216 to float without loss of precision"),
        ({"inputs": {"ids": 1, "vals": 1e39}}, "1e+39 to float without loss of precision"),
        ({"inputs": {"ids": [[1], [2, 3]], "vals": 1}}, "list at unexpected size: 2 at level: 1"),
        ({"inputs": {"ids": [[1], 2], "vals": 1}}, "2 found at incorrect level: 2"),
        ({"inputs": {"ids": [1, [2]], "vals": 1}}, "list at unexpected level: 1 expected < 1"),
        ({"instances": []}, "No values in 'instances' array"),
        ({"instances": [1]}, "instances is a plain list"),
        ({"instances": [{"ids": 1}]}, "keys must be equal to: ids,vals"),
        ({"instances": [{"ids": 1, "vals": 1}, 2]}, "Expecting object but got list at item 1"),
        (
            {"instances": [{"ids": [1], "vals": 1}, {"ids": [1, 2], "vals": 1}]},
            "Failed to process element: 1 key: ids of 'instances' list. Error: Expecting shape",
        ),
    ]
    for request_, message in cases:
        assert message in _refusal(request_, TWO)
    for body in [b"", b"{", b"[" * 100_000, b"\xff", b'{"inputs": ' + b"9" * 5000]:
        with pytest.raises(HttpError, match="JSON Parse error"):
            parse_request(body, {"serving_default": TWO})


def test_numbers_and_strings_are_written_as_by_tensorflow_serving() -> None:
    bits = np.random.default_rng(1).integers(0, 2**32, 20_000, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    read = np.array(json.loads(format_columns({"x": values}))["outputs"]).astype(np.float32)
    assert (read == values).all()
    values = np.random.default_rng(1).normal(0, 1e9, 1000)
    assert json.loads(format_columns({"x": values}))["outputs"] == values.tolist()

    assert (
        format_rows({"x": np.array([2.0], np.float32)}) == b'{\n    "predictions": [2.0\n    ]\n}'
    )
    found = format_rows({"x": np.array([np.nan, np.inf, -np.inf], np.float32)})
    assert b"[NaN, Infinity, -Infinity" in found

    found = format_rows({"x_bytes": np.array([b"\x00\xff"], dtype=object)})
    assert json.loads(found) == {"predictions": [{"b64": "AP8="}]}
    found = format_rows({"x": np.array(["é\n".encode()], dtype=object)})
    assert json.loads(found) == {"predictions": ["é\n"]}


def test_rows_and_columns_name_several_outputs_and_keep_empty_ones() -> None:
    assert json.loads(format_rows({"x": np.eye(2)})) == {"predictions": [[1.0, 0.0], [0.0, 1.0]]}
    found = format_rows({"a": np.array([1, 2]), "b": np.array([[True], [False]])})
    assert json.loads(found) == {"predictions": [{"a": 1, "b": [True]}, {"a": 2, "b": [False]}]}
    found = format_columns({"a": np.array([[1, 2]]), "b": np.array(3)})
    assert json.loads(found) == {"outputs": {"a": [[1, 2]], "b": 3}}

    found = format_columns({"x": np.array([[1], [2]])})
    lines = ["{", '    "outputs": [', "        [", "            1", "        ],"]
    assert found.decode().split("\n")[:5] == lines
    cases: list[tuple[int, ...]] = [(0,), (2, 0), (0, 3), (3, 0, 2)]
    for shape in cases:
        outputs = json.loads(format_columns({"x": np.zeros(shape)}))["outputs"]
        assert outputs == np.zeros(shape).tolist()


def test_outputs_without_common_rows_are_refused() -> None:
    with pytest.raises(
        HttpError, match="Tensor name: b has inconsistent batch size: 3 expecting: 2"
    ):
        format_rows({"a": np.zeros(2), "b": np.zeros(3)})
    with pytest.raises(HttpError, match="has no shape information"):
        format_rows({"a": np.array(1.0)})
