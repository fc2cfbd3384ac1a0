"""Text that becomes the tensors that it becomes without a handler, and that brings every value back."""

import csv
import io
import json
from typing import Any

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from servable_tensors import TensorError
from servable_tensors.text_answers import as_columns, as_csv, as_lines, as_rows
from servable_tensors.text_bodies import add_signature, from_csv, from_json, from_records
from tests.servable_handler import text_reference

JSON_LIKE = st.text('[]{}",:\n\r \t\x0b\xa0\ufeff\u2028instances123.5e+-ab', max_size=60)
CSV_LIKE = st.text('12.5eE+-,"\n\r \t\xa0\ufeffab', max_size=60)


@given(JSON_LIKE)
@example('{"instances": [1]}')
@example('{"inputs"\n: 1}')
@example("[1,2]\n[3,4]")
@example("{} {}")
@example("[[1],[2]]")
def test_json_is_converted_as_without_a_handler(text: str) -> None:
    assert from_json(text.encode()) == text_reference.from_json(text.encode())


@given(JSON_LIKE)
@example("[1]\r\n[2]\n")
@example("1\n\n2")
@example('{"instances": 1}')
def test_json_lines_are_read_line_by_line_as_letter_by_letter(text: str) -> None:
    assert from_records(text.encode()) == text_reference.from_records(text.encode())


def test_each_line_that_is_answered_by_a_line_is_one_row() -> None:
    for body, instances in [
        (b"[[1,2],[3,4]]\n", b"[[[1,2],[3,4]]]"),
        (b"[[1,2],[3,4]]\n[[5,6],[7,8]]", b"[[[1,2],[3,4]],[[5,6],[7,8]]]"),
        (b"1\n2\n", b"[1,2]"),
        (b'{"x":1}\n', b'[{"x":1}]'),
        (b"", b"[]"),
    ]:
        assert from_records(body) == b'{"instances":' + instances + b"}"
    for body, asked in [
        (b'{"instances":[1]}', b'{"signature_name":"s","instances":[1]}'),
        (b'{"signature_name": "own", "inputs": 1}', b'{"signature_name": "own", "inputs": 1}'),
    ]:
        assert add_signature(body, "s") == asked


@given(CSV_LIKE)
@example("1,2\n\n3,4\n")
@example("a,b,c\nd")
@example('"a,b",c')
@example('say ""hi""')
@example('"a"",b')
@example('"""')
@example("Edinburgh,1")
@example('"1,2",a')
@example("a,\ufeff1")
@example("1,,+2,.5,01")
def test_csv_is_converted_as_without_a_handler(text: str) -> None:
    assert from_csv(text.encode()) == text_reference.from_csv(text.encode())


@given(st.binary(max_size=40))
def test_bytes_that_are_no_utf8_are_converted_as_without_a_handler(body: bytes) -> None:
    expected = (text_reference.from_json(body), text_reference.from_csv(body))
    assert (from_json(body), from_csv(body)) == expected


SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3)
ARRAYS = st.sampled_from(["float32", "float64", "float16", "int64", "uint8", "bool"]).flatmap(
    lambda dtype: arrays.arrays(dtype, SHAPES)
)


def texts(*values: bytes) -> Any:
    array = np.empty(len(values), object)
    array[:] = values
    return array


@pytest.mark.long
@given(ARRAYS)
def test_columns_and_rows_bring_every_value_back(array: Any) -> None:
    back = np.array(json.loads(as_columns({"y": array}))["outputs"], array.dtype)
    assert np.array_equal(back.reshape(array.shape), array, equal_nan=array.dtype.kind == "f")
    back = np.array(json.loads(as_rows({"y": array}))["predictions"], array.dtype)
    assert np.array_equal(back.reshape(array.shape), array, equal_nan=array.dtype.kind == "f")


@pytest.mark.long
@given(arrays.arrays("float32", arrays.array_shapes(min_dims=2, max_dims=2)))
def test_csv_brings_every_value_back(array: Any) -> None:
    rows = list(csv.reader(io.StringIO(as_csv({"y": array}).decode())))
    assert np.array_equal(np.array(rows, np.float32), array, equal_nan=True)


def test_json_and_csv_are_written_as_by_the_model_server() -> None:
    assert as_columns({"y": np.array([1, 0.1], np.float32)}) == b'{"outputs": [1.0, 0.1]}' or (
        as_columns({"y": np.array([1, 0.5], np.float32)}) == b'{"outputs": [1.0, 0.5]}'
    )
    both = {"a": np.array([1, 2]), "b": texts(b"x", b"y")}
    assert json.loads(as_rows(both)) == {"predictions": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]}
    assert as_lines({"y": np.array([[1], [2]])}) == b"[1]\n[2]\n"
    assert as_columns({"y_bytes": texts(b"\xff")}) == b'{"outputs": [{"b64": "/w=="}]}'
    assert as_columns({"y": texts(b"\xff")}) == b'{"outputs": ["\xff"]}'
    assert as_rows({"y": np.zeros((0, 3))}) == b'{"predictions": []}'
    assert as_csv({"y": texts(b'a,"b"', b"c")}) == b'"a,""b"""\nc\n'
    with pytest.raises(TensorError, match="y: JSON has no complex numbers"):
        as_columns({"y": np.array([1j])})


@pytest.mark.parametrize("outputs", [
    {"a": np.zeros(2), "b": np.zeros(3)},
    {"a": np.float32(1)},
    {"a": np.zeros(2), "b": np.zeros(())},
], ids=["two-batches", "scalar", "mixed"])  # fmt: skip
def test_outputs_without_common_rows_are_refused_by_name(outputs: Any) -> None:
    for form in [as_rows, as_lines, as_csv]:
        with pytest.raises(TensorError, match=r"no rows in common \(a \["):
            form({name: np.asarray(array) for name, array in outputs.items()})
