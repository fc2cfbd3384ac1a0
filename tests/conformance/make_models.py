"""Writes tests/conformance/models, the small models that the suite asks: run once, kept in git.

    python -m tests.conformance.make_models

numbers  version 1 doubles, version 2 triples; "batch" says how many rows were computed together
words    strings in, strings and bytes out
labels   what TensorFlow 1's estimators exported: classify and regress
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

MODELS = Path(__file__).parent / "models"


def save(folder: Path, **signatures: tuple[Callable[..., Any], list[Any]]) -> None:
    """Save a module of these functions, each with the types of its inputs."""
    module = tf.Module()
    for name, (function, types) in signatures.items():
        setattr(module, name, tf.function(function, input_signature=types))
    functions = {name: getattr(module, name) for name in signatures}
    tf.saved_model.save(module, str(folder), signatures=functions)


def numbers(folder: Path, factor: float) -> None:
    x, part = (tf.TensorSpec(shape, tf.float32) for shape in ([None, 2], [None]))
    save(
        folder,
        serving_default=(lambda x: {"y": x * factor}, [x]),
        batch=(lambda x: {"rows": tf.zeros_like(x[:, 0], tf.int32) + tf.shape(x)[0]}, [x]),
        large=(lambda x: {"y": tf.tile(x[:, :1], [1, 1_300_000])}, [x]),  # 5.2 MB a row
        two=(add, [tf.TensorSpec([None], tf.int64), part]),
    )


def add(whole: Any, part: Any) -> Any:
    return {"sum": tf.cast(whole, tf.float32) + part, "whole": whole}


def words(folder: Path) -> None:
    def serve(words: Any) -> Any:
        return {"upper": tf.strings.upper(words), "raw_bytes": words + b"\x00"}

    save(folder, serving_default=(serve, [tf.TensorSpec([None], tf.string)]))


def labels(folder: Path) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        serialized = tf.compat.v1.placeholder(tf.string, [None], "examples")
        parsed = tf.io.parse_example(serialized, {"x": tf.io.FixedLenFeature([1], tf.float32)})
        x = parsed["x"]
        scores = tf.concat([x, 1.0 - x], axis=1)
        classes = tf.tile([["yes", "no"]], [tf.shape(x)[0], 1])
        info = tf.compat.v1.saved_model.build_tensor_info
        build = tf.compat.v1.saved_model.build_signature_def
        inputs = {"inputs": info(serialized)}
        labels = {"classes": info(classes), "scores": info(scores)}
        signatures = {
            "serving_default": build(inputs, labels, "tensorflow/serving/classify"),
            "number": build(inputs, {"outputs": info(x * 10.0)}, "tensorflow/serving/regress"),
        }
        builder = tf.compat.v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()


if __name__ == "__main__":
    shutil.rmtree(MODELS, ignore_errors=True)
    numbers(MODELS / "numbers" / "1", 2.0)
    numbers(MODELS / "numbers" / "02", 3.0)
    words(MODELS / "words" / "1")
    labels(MODELS / "labels" / "1")
    for empty in [*MODELS.rglob("assets"), *MODELS.rglob("fingerprint.pb")]:
        shutil.rmtree(empty) if empty.is_dir() else empty.unlink()
