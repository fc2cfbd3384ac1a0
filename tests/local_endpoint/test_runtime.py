from pathlib import Path
from typing import Any

import numpy as np
import pytest

from local.endpoint.answer import Refusal


@pytest.fixture(scope="module")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A signature of every odd kind: strings in, strings, bytes and a scalar out."""
    import tensorflow as tf

    from local.endpoint.model_server.runtime import Servable

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
    return Servable(folder)


def test_every_signature_is_found(text_model: Any) -> None:
    assert sorted(text_model.signatures) == ["again", "serving_default"]


@pytest.mark.parametrize(("output", "expected"), [("raw_bytes", [b"a\0"]), ("first_bytes", b"a\0")])
def test_strings_keep_their_zero_bytes(output: str, expected: object, text_model: Any) -> None:
    words = np.array([b"a"], dtype=object)
    found = text_model.signatures["serving_default"].compute({"words": words})
    assert found[output].tolist() == expected


def test_tensorflows_refusal_is_a_sentence_without_python_stacks() -> None:
    from local.endpoint.model_server.runtime import Servable

    signature = Servable(Path(__file__).parents[2] / "examples/ranker/model/1").signatures
    arrays: dict[str, Any] = {
        "feat_ids": np.zeros((2, 3), np.int64),
        "feat_vals": np.zeros((2, 3), np.float32),
    }
    with pytest.raises(Refusal, match="^Input to reshape is a tensor with 48 values"):
        signature["serving_default"].compute(arrays)
