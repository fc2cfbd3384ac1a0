"""Writes SavedModels that TensorFlow Serving serves, of many kinds: `python good_exports.py FOLDER`.

Each is FOLDER/NAME/1.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

Export = Callable[[Path], None]
FLOATS = tf.TensorSpec([None, 4], tf.float32, name="x")
WORDS = tf.TensorSpec([None], tf.string, name="x")
IMAGES = tf.TensorSpec([None, 8, 8, 3], tf.float32, name="x")


def sequential(*parts: Any, shape: tuple[int | None, ...], dtype: str = "float32") -> Export:
    def export(folder: Path) -> None:
        inputs = keras.Input(shape, dtype=dtype)
        outputs = inputs
        for part in parts:
            outputs = part(outputs)
        keras.Model(inputs, outputs).export(str(folder), verbose=False)

    return export


def function(body: Callable[..., Any], spec: Any, **of: Callable[[], Any]) -> Export:
    def export(folder: Path) -> None:
        module = tf.Module()
        for name, value in of.items():
            setattr(module, name, value())
        module.serve = tf.function(
            lambda x: body(module, x) if of else body(x), input_signature=[spec]
        )
        tf.saved_model.save(module, str(folder), signatures=module.serve)

    return export


def attention(folder: Path) -> None:
    inputs = keras.Input((6, 8))
    attended = layers.MultiHeadAttention(2, 4)(inputs, inputs)
    outputs = layers.LayerNormalization()(attended + inputs)
    keras.Model(inputs, layers.GlobalAveragePooling1D()(outputs)).export(str(folder), verbose=False)


def several_inputs(folder: Path) -> None:
    numbers, ids = keras.Input((4,)), keras.Input((3,), dtype="int64")
    embedded = layers.Flatten()(layers.Embedding(10, 4)(ids))
    outputs = layers.Dense(1)(layers.Concatenate()([numbers, embedded]))
    keras.Model([numbers, ids], outputs).export(str(folder), verbose=False)


def looked_up(folder: Path) -> None:
    words = folder.parent.with_suffix(".txt")
    words.write_text("a\nb\n")
    module = tf.Module()
    module.asset = tf.saved_model.Asset(str(words))
    filled = tf.lookup.TextFileInitializer(
        module.asset, tf.string, 0, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
    )
    module.table = tf.lookup.StaticVocabularyTable(filled, 2)
    module.serve = tf.function(lambda x: module.table.lookup(x), input_signature=[WORDS])
    tf.saved_model.save(module, str(folder), signatures=module.serve)


def tensorflow_1(folder: Path) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        weights = v1.get_variable("w", [4, 2], use_resource=False)
        y = tf.nn.softmax(tf.matmul(tf.nn.l2_normalize(x), weights))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder), {"x": x}, {"y": y})


def tensorflow_1_table(folder: Path) -> None:
    v1 = tf.compat.v1
    words = folder.parent.with_suffix(".txt")
    words.write_text("a\nb\n")
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.string, [None], name="x")
        file = tf.constant(str(words))
        filled = v1.lookup.TextFileInitializer(file, tf.string, 0, tf.int64, -1)
        y = v1.lookup.StaticHashTable(filled, -1).lookup(x)
        session.run(v1.tables_initializer())
        builder = v1.saved_model.Builder(str(folder))
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"serving_default": signature},
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.tables_initializer(),
        )  # fmt: skip
        builder.save()


def frozen(folder: Path) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None, 4], name="x")
        y = tf.matmul(x, tf.ones([4, 2]))
        tf.compat.v1.saved_model.simple_save(session, str(folder), {"x": x}, {"y": y})


def normalized(folder: Path) -> None:
    scaled = layers.Normalization()
    scaled.adapt(np.random.default_rng(1).random((8, 4)))
    sequential(scaled, layers.Dense(1), shape=(4,))(folder)


def vectorized(folder: Path) -> None:
    text = layers.TextVectorization(max_tokens=20, output_sequence_length=4)
    text.adapt(["a b c", "b c d"])
    function(lambda module, x: module.text(x), WORDS, text=lambda: text)(folder)


def collatz(x: Any) -> Any:
    step = lambda i, y: (i + 1, tf.where(y > 1.0, y / 2.0, 3.0 * y + 1.0))  # noqa: E731
    return tf.while_loop(lambda i, y: i < 5, step, [0, x])[1]


def decoded(x: Any) -> Any:
    raw = tf.map_fn(
        lambda one: tf.image.decode_jpeg(one, channels=3), x, fn_output_signature=tf.uint8
    )
    return tf.image.resize(tf.cast(raw, tf.float32) / 255.0, [4, 4])


def examples(x: Any) -> Any:
    features = {"a": tf.io.FixedLenFeature([2], tf.float32), "b": tf.io.VarLenFeature(tf.string)}
    parsed = tf.io.parse_example(x, features)
    return {"a": parsed["a"], "b": tf.sparse.to_dense(parsed["b"])}


GOOD: dict[str, Export] = {
    "dense": sequential(layers.Dense(3, activation="relu"), layers.Dense(1), shape=(4,)),
    "dropout": sequential(layers.Dense(3), layers.Dropout(0.5), shape=(4,)),
    "gelu": sequential(layers.Dense(3, activation="gelu"), shape=(4,)),
    "batch-norm": sequential(layers.BatchNormalization(), shape=(4,)),
    "conv": sequential(
        layers.Conv2D(2, 3), layers.MaxPooling2D(), layers.Flatten(), shape=(8, 8, 3)
    ),
    "depthwise": sequential(layers.SeparableConv2D(2, 3), shape=(8, 8, 3)),
    "transposed": sequential(layers.Conv2DTranspose(2, 3), shape=(8, 8, 3)),
    "conv-1d": sequential(layers.Conv1D(2, 3), layers.GlobalMaxPooling1D(), shape=(8, 3)),
    "lstm": sequential(layers.LSTM(3), shape=(None, 2)),
    "gru": sequential(layers.Bidirectional(layers.GRU(3)), shape=(5, 2)),
    "embedding": sequential(layers.Embedding(9, 2), layers.Flatten(), shape=(3,), dtype="int64"),
    "rescaled": sequential(layers.Rescaling(1 / 255), layers.Resizing(4, 4), shape=(8, 8, 3)),
    "category": sequential(layers.CategoryEncoding(4), shape=(2,), dtype="int64"),
    "hashed": function(lambda x: tf.strings.to_hash_bucket_fast(x, 9), WORDS),
    "attention": attention,
    "several-inputs": several_inputs,
    "normalized": normalized,
    "vectorized": vectorized,
    "asset-table": looked_up,
    "tensorflow-1": tensorflow_1,
    "tensorflow-1-table": tensorflow_1_table,
    "frozen": frozen,
    "while": function(collatz, FLOATS),
    "cond": function(
        lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: tf.zeros_like(x)), FLOATS
    ),
    "strings": function(lambda x: tf.strings.regex_replace(tf.strings.lower(x), "a+", "b"), WORDS),
    "ragged": function(lambda x: tf.strings.split(x).to_tensor(), WORDS),
    "jpeg": function(decoded, WORDS),
    "examples": function(examples, WORDS),
    "einsum": function(lambda x: tf.einsum("bi,bj->bij", x, x), FLOATS),
    "top-k": function(lambda x: tf.math.top_k(x, k=2).indices, FLOATS),
    "random": function(lambda x: x + tf.random.stateless_normal(tf.shape(x), [1, 2]), FLOATS),
    "sparse": function(
        lambda x: tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(x), tf.ones([4, 2])), FLOATS
    ),
    "linear-algebra": function(lambda x: tf.linalg.inv(tf.matmul(x, x, transpose_a=True)), FLOATS),
    "image": function(lambda x: tf.image.adjust_contrast(tf.image.flip_left_right(x), 2.0), IMAGES),
    "fourier": function(lambda x: tf.abs(tf.signal.rfft(x)), FLOATS),
    "compiled": function(tf.function(lambda x: tf.sort(x) * 2, jit_compile=True), FLOATS),
    "half": function(lambda x: tf.cast(tf.nn.softmax(tf.cast(x, tf.bfloat16)), tf.float32), FLOATS),
    "datasets": function(
        lambda x: (
            tf.data.Dataset.from_tensor_slices(x).map(lambda y: y * 2).batch(9).get_single_element()
        ),
        FLOATS,
    ),
    "counter": function(
        lambda module, x: module.n.assign_add(1.0) + x, FLOATS, n=lambda: tf.Variable(0.0)
    ),
    "table": function(
        lambda module, x: module.table.lookup(x),
        WORDS,
        table=lambda: tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["a"], [1.0]), 0.0
        ),
    ),
}


def main(folder: Path) -> None:
    for name, export in GOOD.items():
        export(folder / name / "1")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
