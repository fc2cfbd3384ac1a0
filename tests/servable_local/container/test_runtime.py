import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servable_local.container.http_messages import HttpError
from servable_tensors import tfrecord, wire


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
    cases: list[tuple[str, object]] = [("raw_bytes", [b"a\0"]), ("first_bytes", b"a\0")]
    for output, expected in cases:
        words = np.array([b"a"], dtype=object)
        found = text_model.signatures["serving_default"].compute({"words": words})
        assert found[output].tolist() == expected


def test_tensorflows_refusal_is_a_sentence_without_python_stacks() -> None:
    from servable_local.container.model_server.runtime import LoadedVersion

    signature = LoadedVersion(Path(__file__).parents[3] / "examples/ranker/model/1").signatures
    arrays: dict[str, Any] = {
        "feat_ids": np.zeros((2, 3), np.int64),
        "feat_vals": np.zeros((2, 3), np.float32),
    }
    with pytest.raises(HttpError, match="^Input to reshape is a tensor with 48 values"):
        signature["serving_default"].compute(arrays)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (tfrecord.frame_records([b""])[:-1], "the file ends inside the record"),
        (tfrecord.frame_records([b"\x0a"]), "Error parsing message"),
        (
            tfrecord.frame_records([b""]),
            "record 1: the record isn't a predict record; the local container replays no other kind",
        ),
    ],
    ids=["cut", "no message", "no predict record"],
)
def test_a_warm_up_file_that_is_none_is_a_load_error(
    content: bytes, reason: str, text_model: Any, tmp_path: Path
) -> None:
    from servable_local.container.model_server.process import PLACE, replay_warmup
    from servable_local.container.model_server.runtime import ModelLoadError

    (tmp_path / PLACE).parent.mkdir()
    (tmp_path / PLACE).write_bytes(content)
    with pytest.raises(ModelLoadError, match=reason):
        replay_warmup(tmp_path, text_model)


def _words(count: int) -> bytes:
    record = wire.PredictionLog()
    words = record.predict_log.request.inputs["words"]
    words.dtype = wire.DataType["DT_STRING"]
    words.string_val.extend([b"a"] * count)
    words.tensor_shape.dim.add(size=count)
    return bytes(record.SerializeToString())


def test_a_warm_up_record_goes_through_batching(text_model: Any, tmp_path: Path) -> None:
    from servable_local.container.model_server.process import PLACE, replay_warmup
    from servable_local.container.model_server.runtime import ModelLoadError

    (tmp_path / PLACE).parent.mkdir()
    (tmp_path / PLACE).write_bytes(tfrecord.frame_records([_words(8), _words(9)]))
    with pytest.raises(ModelLoadError, match="record 2: Task size 9 is larger than maximum"):
        replay_warmup(tmp_path, text_model, max_batch_rows=8)


def test_a_record_of_another_method_does_not_keep_the_model_from_loading(
    text_model: Any, tmp_path: Path
) -> None:
    from servable_local.container.model_server.process import PLACE, replay_warmup

    (tmp_path / PLACE).parent.mkdir()
    log = wire.PredictionLog(multi_inference_log=b"")
    (tmp_path / PLACE).write_bytes(tfrecord.frame_records([log.SerializeToString()]))
    assert replay_warmup(tmp_path, text_model) == 1


def test_more_warm_up_records_than_the_image_takes_are_a_load_error(
    text_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from servable_local.container.model_server import process
    from servable_local.container.model_server.runtime import ModelLoadError

    (tmp_path / process.PLACE).parent.mkdir()
    (tmp_path / process.PLACE).write_bytes(tfrecord.frame_records([_words(1)] * 1001))
    with pytest.raises(ModelLoadError, match="more than 1000 records"):
        process.replay_warmup(tmp_path, text_model)


FOREST = Path(__file__).parents[2] / "exports" / "models" / "forest-ydf" / "1"


def test_an_operation_that_is_not_here_is_named_with_what_may_have_it() -> None:
    from servable_local.container.model_server.runtime import LoadedVersion, ModelLoadError

    with pytest.raises(ModelLoadError) as refused:
        LoadedVersion(FOREST)
    said = str(refused.value)
    assert said.startswith("Op type not registered 'SimpleML")
    assert "tensorflow_decision_forests" in said


def test_a_package_that_may_have_the_operation_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from servable_local.container.model_server import runtime

    (tmp_path / "operations_of_mine.py").write_text("raise RuntimeError('another TensorFlow')")
    (tmp_path / "more_of_mine.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(runtime, "ADDED", ("operations_of_mine", "more_of_mine", "none_of_mine"))
    with pytest.raises(runtime.ModelLoadError):
        runtime.LoadedVersion(FOREST)
    assert sys.modules.pop("more_of_mine", None) is not None
