"""servable_tensors/text_answers.py: text that brings every value back."""

import csv
import io
import json
from typing import Any

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from servable_tensors import TensorError
from servable_tensors.text_answers import as_columns, as_csv, as_lines, as_rows

SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3)
ARRAYS = st.sampled_from(["float32", "float64", "float16", "int64", "uint8", "bool"]).flatmap(
    lambda dtype: arrays.arrays(dtype, SHAPES)
)


def texts(*values: bytes) -> Any:
    array = np.empty(len(values), object)
    array[:] = values
    return array


@given(ARRAYS)
def test_columns_and_rows_bring_every_value_back(array: Any) -> None:
    back = np.array(json.loads(as_columns({"y": array}))["outputs"], array.dtype)
    assert np.array_equal(back.reshape(array.shape), array, equal_nan=array.dtype.kind == "f")
    back = np.array(json.loads(as_rows({"y": array}))["predictions"], array.dtype)
    assert np.array_equal(back.reshape(array.shape), array, equal_nan=array.dtype.kind == "f")


@given(arrays.arrays("float32", arrays.array_shapes(min_dims=2, max_dims=2)))
def test_csv_brings_every_value_back(array: Any) -> None:
    rows = list(csv.reader(io.StringIO(as_csv({"y": array}).decode())))
    assert np.array_equal(np.array(rows, np.float32), array, equal_nan=True)


def test_json_is_written_as_by_the_model_server() -> None:
    assert as_columns({"y": np.array([1, 0.1], np.float32)}) == b'{"outputs": [1.0, 0.1]}' or (
        as_columns({"y": np.array([1, 0.5], np.float32)}) == b'{"outputs": [1.0, 0.5]}'
    )
    both = {"a": np.array([1, 2]), "b": texts(b"x", b"y")}
    assert json.loads(as_rows(both)) == {"predictions": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]}
    assert as_lines({"y": np.array([[1], [2]])}) == b"[1]\n[2]\n"
    assert as_columns({"y_bytes": texts(b"\xff")}) == b'{"outputs": [{"b64": "/w=="}]}'
    assert as_columns({"y": texts(b"\xff")}) == b'{"outputs": ["\xff"]}'
    assert as_rows({"y": np.zeros((0, 3))}) == b'{"predictions": []}'


def test_csv_quotes_what_needs_it() -> None:
    assert as_csv({"y": texts(b'a,"b"', b"c")}) == b'"a,""b"""\nc\n'


@pytest.mark.parametrize(
    "outputs",
    [
        {"a": np.zeros(2), "b": np.zeros(3)},
        {"a": np.float32(1)},
        {"a": np.zeros(2), "b": np.zeros(())},
    ],
    ids=["two-batches", "scalar", "mixed"],
)
def test_outputs_without_common_rows_are_refused_by_name(outputs: Any) -> None:
    for form in [as_rows, as_lines, as_csv]:
        with pytest.raises(TensorError, match=r"no rows in common \(a \["):
            form({name: np.asarray(array) for name, array in outputs.items()})


def test_complex_numbers_are_no_json() -> None:
    with pytest.raises(TensorError, match="y: JSON has no complex numbers"):
        as_columns({"y": np.array([1j])})
