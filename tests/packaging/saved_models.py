"""Writes SavedModels of every kind with TensorFlow: `python saved_models.py FOLDER`.

keras/1, module/1, frozen/1 (no variables), builder/1 (TensorFlow 1), unsigned/1
and train_only/1; and said.json, what TensorFlow itself says of those with a signature.
"""

import json
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf


def keras(folder: str) -> None:
    inputs = tf.keras.Input((3,), name="x")
    tf.keras.Model(inputs, tf.keras.layers.Dense(2, name="y")(inputs)).export(folder, verbose=False)


class Module(tf.Module):  # type: ignore[misc]  # tensorflow has no types
    def __init__(self, vocabulary: str) -> None:
        super().__init__()
        self.weights = tf.Variable(tf.ones([4, 2]))
        self.vocabulary = tf.saved_model.Asset(vocabulary)
        initializer = tf.lookup.TextFileInitializer(
            self.vocabulary, tf.string, 0, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
        )
        self.table = tf.lookup.StaticHashTable(initializer, -1)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.string, name="words")])  # type: ignore[untyped-decorator]
    def serve(self, words: Any) -> dict[str, Any]:
        return {"ids": self.table.lookup(words), "sum": tf.reduce_sum(self.weights)}

    @tf.function(input_signature=[tf.TensorSpec(None, tf.bfloat16, name="any")])  # type: ignore[untyped-decorator]
    def anything(self, any: Any) -> dict[str, Any]:
        return {"twice": any * 2}


def module(folder: str) -> None:
    vocabulary = Path(folder).parent / "words.txt"
    vocabulary.parent.mkdir(parents=True, exist_ok=True)
    vocabulary.write_text("a\nb\n")
    one = Module(str(vocabulary))
    tf.saved_model.save(one, folder, {"serving_default": one.serve, "anything": one.anything})


def frozen(folder: str) -> None:
    """As TensorFlow 1 froze graphs: variables became constants, and there is no checkpoint."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None, 2], name="x")
        y = tf.matmul(x, tf.ones([2, 2]), name="y")
        _build(folder, session, ["serve"], x, y)


def builder(folder: str) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None, 2], name="x")
        weights = tf.compat.v1.get_variable("w", [2, 2], use_resource=False)
        session.run(tf.compat.v1.global_variables_initializer())
        _build(folder, session, ["serve"], x, tf.matmul(x, weights, name="y"))


def train_only(folder: str) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None, 2], name="x")
        _build(folder, session, ["train", "gpu"], x, x * 2)


def unsigned(folder: str) -> None:
    tf.saved_model.save(tf.Module(), folder)


def _build(folder: str, session: Any, tags: list[str], x: Any, y: Any) -> None:
    v1 = tf.compat.v1.saved_model
    one = v1.Builder(folder)
    signature = v1.predict_signature_def({"x": x}, {"y": y})
    one.add_meta_graph_and_variables(session, tags, {"serving_default": signature})
    one.save()


def said(folder: str) -> dict[str, Any]:
    """Signatures as TensorFlow's own loader reads them: {name: {inputs, outputs}}."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], folder)
    return {
        "tensorflow_version": graph.meta_info_def.tensorflow_version,
        "signatures": {
            name: {"inputs": _tensors(one.inputs), "outputs": _tensors(one.outputs)}
            for name, one in graph.signature_def.items()
            if not name.startswith("__")
        },
    }


def _tensors(tensors: Any) -> dict[str, Any]:
    return {
        name: [
            tensor.name,
            tf.dtypes.as_dtype(tensor.dtype).name,
            None
            if tensor.tensor_shape.unknown_rank
            else [None if dim.size < 0 else dim.size for dim in tensor.tensor_shape.dim],
        ]
        for name, tensor in tensors.items()
    }


if __name__ == "__main__":
    root = Path(sys.argv[1])
    for make in (keras, module, frozen, builder, train_only, unsigned):
        make(str(root / make.__name__ / "1"))
    spoken = {
        name: said(str(root / name / "1")) for name in ("keras", "module", "frozen", "builder")
    }
    (root / "said.json").write_text(json.dumps(spoken))
