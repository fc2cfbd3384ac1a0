"""TensorFlow Serving's REST interface in JSON, and models in TensorFlow's own runtime."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servable_local.container.http_messages import HttpError
from servable_local.container.model_server.answers import format_columns, format_rows
from servable_local.container.model_server.predict_request import PredictRequest, parse_request
from servable_tensors import tfrecord, wire
from tests.exports.exports import MODELS
from tests.servable_local.container.conftest import RANKER

TWO = {"ids": "int64", "vals": "float32"}


def _parse(request: object, inputs: Mapping[str, str]) -> PredictRequest:
    return parse_request(json.dumps(request).encode(), {"serving_default": inputs, "other": inputs})


def test_rows_and_columns_become_arrays_of_the_signatures_types() -> None:
    arrays = _parse({"inputs": {"ids": [[1]], "vals": [[2]]}}, TWO).arrays
    assert [arrays[name].dtype.name for name in TWO] == ["int64", "float32"]

    rows = [{"ids": [1, 2], "vals": 0.5}, {"ids": [3, 4], "vals": 1.5}]
    arrays = _parse({"instances": rows}, TWO).arrays
    found = {name: array.tolist() for name, array in arrays.items()}
    assert found == {"ids": [[1, 2], [3, 4]], "vals": [0.5, 1.5]}
    for name in ("instances", "inputs"):
        assert _parse({name: [1, 2]}, {"x": "int32"}).arrays["x"].tolist() == [1, 2]
    assert _parse({"signature_name": "other", "inputs": [1]}, {"x": "int64"}).signature == "other"
    for number in [2**24 - 1, 1e38, 2**70]:
        assert _parse({"inputs": [number]}, {"x": "float32"}).arrays["x"] == [np.float32(number)]

    cases: list[object] = [{"b64": "AP8="}, [{"b64": "AP8="}]]
    for value in cases:
        array = _parse({"inputs": {"x": value}}, {"x": "string"}).arrays["x"]
        assert array.ravel().tolist() == [b"\x00\xff"]
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
    for request, message in cases:
        with pytest.raises(HttpError) as refusal:
            _parse(request, TWO)
        assert message in refusal.value.message
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

    found = format_rows({"x": np.array([2.0], np.float32)})
    assert found == b'{\n    "predictions": [2.0\n    ]\n}'
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

    refused = "Tensor name: b has inconsistent batch size: 3 expecting: 2"
    with pytest.raises(HttpError, match=refused):
        format_rows({"a": np.zeros(2), "b": np.zeros(3)})
    with pytest.raises(HttpError, match="has no shape information"):
        format_rows({"a": np.array(1.0)})


@pytest.fixture(scope="module")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A signature of every odd kind: strings in, strings, bytes and a scalar out."""
    import tensorflow as tf

    from servable_local.container.model_server.runtime import LoadedVersion

    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])  # type: ignore[untyped-decorator]
    def upper(words: Any) -> dict[str, Any]:
        return {
            "upper": tf.strings.upper(words),
            "raw_bytes": words + b"\x00",
            "first_bytes": words[0] + b"\x00",
        }

    module.upper = upper
    folder = tmp_path_factory.mktemp("text")
    tf.saved_model.save(module, str(folder), signatures={"serving_default": upper, "again": upper})
    return LoadedVersion(folder)


def test_every_signature_is_found_and_strings_keep_their_zero_bytes(text_model: Any) -> None:
    assert sorted(text_model.signatures) == ["again", "serving_default"]
    words = np.array([b"a"], dtype=object)
    found = text_model.signatures["serving_default"].compute({"words": words})
    assert [found[name].tolist() for name in ("raw_bytes", "first_bytes")] == [[b"a\0"], b"a\0"]


def test_tensorflows_refusal_is_a_sentence_without_python_stacks() -> None:
    from servable_local.container.model_server.runtime import LoadedVersion

    signature = LoadedVersion(RANKER / "model/1").signatures
    arrays: dict[str, Any] = {"feat_ids": np.zeros((2, 3), np.int64)}
    arrays["feat_vals"] = np.zeros((2, 3), np.float32)
    with pytest.raises(HttpError, match="^Input to reshape is a tensor with 48 values"):
        signature["serving_default"].compute(arrays)


def _words(count: int, dtype: str = "DT_STRING") -> bytes:
    record = wire.PredictionLog()
    words = record.predict_log.request.inputs["words"]
    words.dtype = wire.DataType[dtype]
    words.string_val.extend([b"a"] * count)
    words.tensor_shape.dim.add(size=count)
    return bytes(record.SerializeToString())


def test_a_warm_up_that_the_image_does_not_take_is_a_load_error(
    text_model: Any, tmp_path: Path
) -> None:
    from servable_local.container.model_server.process import PLACE, replay_warmup
    from servable_local.container.model_server.runtime import ModelLoadError

    (tmp_path / PLACE).parent.mkdir()
    frames = tfrecord.frame_records
    for content, reason in [
        (frames([b""])[:-1], "the file ends inside the record"),
        (frames([b"\x0a"]), "Error parsing message"),
        (frames([b""]), "record 1: the record isn't a predict record; the local container replays"),
        (frames([_words(8), _words(9)]), "record 2: Task size 9 is larger than maximum"),
        (frames([_words(0, "DT_INT64")]), "words expected type: string but got: int64"),
        (frames([_words(1)] * 1001), "more than 1000 records"),
    ]:
        (tmp_path / PLACE).write_bytes(content)
        with pytest.raises(ModelLoadError, match=reason):
            replay_warmup(tmp_path, text_model, max_batch_rows=8)
    # A record of another method does not keep the model from loading.
    log = wire.PredictionLog(multi_inference_log=b"")
    (tmp_path / PLACE).write_bytes(frames([log.SerializeToString()]))
    assert replay_warmup(tmp_path, text_model) == 1


def test_an_operation_that_is_not_here_is_looked_for_and_named_with_what_may_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from servable_local.container.model_server import runtime

    forest = MODELS / "forest-ydf" / "1"
    with pytest.raises(runtime.ModelLoadError) as refused:
        runtime.LoadedVersion(forest)
    said = str(refused.value)
    assert said.startswith("Op type not registered 'SimpleML")
    assert "tensorflow_decision_forests" in said

    (tmp_path / "operations_of_mine.py").write_text("raise RuntimeError('another TensorFlow')")
    (tmp_path / "more_of_mine.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(runtime, "ADDED", ("operations_of_mine", "more_of_mine", "none_of_mine"))
    with pytest.raises(runtime.ModelLoadError):
        runtime.LoadedVersion(forest)
    assert sys.modules.pop("more_of_mine", None) is not None
