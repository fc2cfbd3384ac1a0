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


def _words(count: int) -> bytes:
    record = wire.PredictionLog()
    words = record.predict_log.request.inputs["words"]
    words.dtype = wire.DataType["DT_STRING"]
    words.string_val.extend([b"a"] * count)
    words.tensor_shape.dim.add(size=count)
    return bytes(record.SerializeToString())


def _replayed(folder: Path, content: bytes, model: Any, **limits: int) -> int:
    from servable_local.container.model_server.process import PLACE, replay_warmup

    (folder / PLACE).parent.mkdir(exist_ok=True)
    (folder / PLACE).write_bytes(content)
    return int(replay_warmup(folder, model, **limits))


def test_a_warm_up_that_the_image_does_not_take_is_a_load_error(
    text_model: Any, tmp_path: Path
) -> None:
    from servable_local.container.model_server.runtime import ModelLoadError

    frames = tfrecord.frame_records
    for content, reason in [
        (frames([b""])[:-1], "the file ends inside the record"),
        (frames([b"\x0a"]), "Error parsing message"),
        (frames([b""]), "record 1: the record isn't a predict record; the local container replays"),
        (frames([_words(8), _words(9)]), "record 2: Task size 9 is larger than maximum"),
        (frames([_words(1)] * 1001), "more than 1000 records"),
    ]:
        with pytest.raises(ModelLoadError, match=reason):
            _replayed(tmp_path, content, text_model, max_batch_rows=8)
    # A record of another method does not keep the model from loading.
    log = wire.PredictionLog(multi_inference_log=b"")
    assert _replayed(tmp_path, frames([log.SerializeToString()]), text_model) == 1


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
