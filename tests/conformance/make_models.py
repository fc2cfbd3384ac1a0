"""Writes tests/conformance/models, the small models that the suite asks: run once, kept in git.

    python -m tests.conformance.make_models

numbers  version 1 doubles, version 2 triples; "batch" says how many rows were computed together
words    strings in, strings and bytes out
labels   what TensorFlow 1's estimators exported: classify and regress
"""

import shutil
from pathlib import Path
from typing import Any

import tensorflow as tf

MODELS = Path(__file__).parent / "models"
COLUMNS = 2


def numbers(folder: Path, factor: float) -> None:
    class Numbers(tf.Module):  # type: ignore[misc]
        @tf.function(input_signature=[tf.TensorSpec([None, COLUMNS], tf.float32)])  # type: ignore[untyped-decorator]
        def serve(self, x: Any) -> Any:
            return {"y": x * factor}

        @tf.function(input_signature=[tf.TensorSpec([None, COLUMNS], tf.float32)])  # type: ignore[untyped-decorator]
        def batch(self, x: Any) -> Any:
            return {"rows": tf.zeros_like(x[:, 0], tf.int32) + tf.shape(x)[0]}

        @tf.function(input_signature=[tf.TensorSpec([None, COLUMNS], tf.float32)])  # type: ignore[untyped-decorator]
        def large(self, x: Any) -> Any:
            return {"y": tf.tile(x[:, :1], [1, 1_300_000])}  # 5.2 MB a row

        @tf.function(input_signature=[  # type: ignore[untyped-decorator]
            tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.float32),
        ])  # fmt: skip
        def two(self, whole: Any, part: Any) -> Any:
            return {"sum": tf.cast(whole, tf.float32) + part, "whole": whole}

    one = Numbers()
    signatures = {
        "serving_default": one.serve, "batch": one.batch, "large": one.large, "two": one.two,
    }  # fmt: skip
    tf.saved_model.save(one, str(folder), signatures=signatures)


def words(folder: Path) -> None:
    class Words(tf.Module):  # type: ignore[misc]
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])  # type: ignore[untyped-decorator]
        def serve(self, words: Any) -> Any:
            return {"upper": tf.strings.upper(words), "raw_bytes": words + b"\x00"}

    one = Words()
    tf.saved_model.save(one, str(folder), signatures={"serving_default": one.serve})


def labels(folder: Path) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        serialized = tf.compat.v1.placeholder(tf.string, [None], "examples")
        parsed = tf.io.parse_example(serialized, {"x": tf.io.FixedLenFeature([1], tf.float32)})
        x = parsed["x"]
        scores = tf.concat([x, 1.0 - x], axis=1)
        classes = tf.tile([["yes", "no"]], [tf.shape(x)[0], 1])
        info = tf.compat.v1.saved_model.build_tensor_info
        build = tf.compat.v1.saved_model.build_signature_def
        builder = tf.compat.v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {
                "serving_default": build(
                    {"inputs": info(serialized)},
                    {"classes": info(classes), "scores": info(scores)},
                    "tensorflow/serving/classify",
                ),
                "number": build(
                    {"inputs": info(serialized)},
                    {"outputs": info(x * 10.0)},
                    "tensorflow/serving/regress",
                ),
            },
        )
        builder.save()


if __name__ == "__main__":
    shutil.rmtree(MODELS, ignore_errors=True)
    numbers(MODELS / "numbers" / "1", 2.0)
    numbers(MODELS / "numbers" / "02", 3.0)
    words(MODELS / "words" / "1")
    labels(MODELS / "labels" / "1")
    for empty in [*MODELS.rglob("assets"), *MODELS.rglob("fingerprint.pb")]:
        shutil.rmtree(empty) if empty.is_dir() else empty.unlink()
