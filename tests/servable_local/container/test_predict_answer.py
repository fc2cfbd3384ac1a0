import json

import numpy as np
import pytest

from servable_local.container.http_messages import HttpError
from servable_local.container.model_server.answers import format_columns, format_rows


def test_every_float_comes_back_as_it_was() -> None:
    bits = np.random.default_rng(1).integers(0, 2**32, 20_000, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    read = np.array(json.loads(format_columns({"x": values}))["outputs"]).astype(np.float32)
    assert (read == values).all()
    values = np.random.default_rng(1).normal(0, 1e9, 1000)
    assert json.loads(format_columns({"x": values}))["outputs"] == values.tolist()


def test_whole_and_unusual_numbers_are_written_as_by_tensorflow_serving() -> None:
    assert (
        format_rows({"x": np.array([2.0], np.float32)}) == b'{\n    "predictions": [2.0\n    ]\n}'
    )
    found = format_rows({"x": np.array([np.nan, np.inf, -np.inf], np.float32)})
    assert b"[NaN, Infinity, -Infinity" in found


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


def test_strings_are_text_or_base64() -> None:
    found = format_rows({"x_bytes": np.array([b"\x00\xff"], dtype=object)})
    assert json.loads(found) == {"predictions": [{"b64": "AP8="}]}
    found = format_rows({"x": np.array(["é\n".encode()], dtype=object)})
    assert json.loads(found) == {"predictions": ["é\n"]}


def test_outputs_without_common_rows_are_refused() -> None:
    with pytest.raises(
        HttpError, match="Tensor name: b has inconsistent batch size: 3 expecting: 2"
    ):
        format_rows({"a": np.zeros(2), "b": np.zeros(3)})
    with pytest.raises(HttpError, match="has no shape information"):
        format_rows({"a": np.array(1.0)})
