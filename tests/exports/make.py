"""Writes the SavedModels of this folder, each exported by its framework, with the framework's own answers.

    python tests/exports/make.py [NAME …]     # left out: all that this environment's packages can make

models/NAME/1 is the export, answers/NAME.json what the framework itself answered before it exported,
with versions and date. Run once, kept in git. No lock of this project has these packages; each group is
made in a throw-away virtual environment of Python 3.11 (tf-keras without its dependencies):

    tensorflow-cpu==2.21.0 keras==3.15.1 jax==0.10.2 tf-keras==2.21.0 torch==2.13.0    all others
    tensorflow==2.19.0 tensorflow-decision-forests==1.12.0 ydf==0.13.0 tf-keras==2.19.0    forest*

docs/frameworks.md shows the calls of this file.
"""

import argparse
import base64
import contextlib
import datetime
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SEED = 1
VERSIONS = (
    "tensorflow", "tensorflow-cpu", "keras", "tf-keras", "jax", "torch", "ydf",
    "tensorflow-decision-forests",
)  # fmt: skip

Asked = tuple[str, Mapping[str, Any], Mapping[str, Any]]
"""A signature, the arrays that it is given, and the arrays that the framework answers."""
Maker = Callable[[str], list[Asked]]


def rows(*shape: int) -> Any:
    """Numbers between -1 and 1, always the same."""
    return np.random.default_rng(SEED).uniform(-1, 1, shape).astype("float32")


# Keras 3 on TensorFlow.


def keras_tensorflow(folder: str) -> list[Asked]:
    import keras

    numbers = keras.Input((4,), name="numbers")
    ids = keras.Input((3,), dtype="int64", name="ids")
    embedded = keras.layers.Flatten()(keras.layers.Embedding(10, 2)(ids))
    outputs = keras.layers.Dense(1)(keras.layers.Concatenate()([numbers, embedded]))
    model = keras.Model([numbers, ids], outputs)
    model.export(folder)

    given = {"numbers": rows(2, 4), "ids": np.array([[1, 2, 3], [9, 0, 4]])}
    answer = model.predict([given["numbers"], given["ids"]], verbose=0)
    return [("serving_default", given, {"output_0": answer})]


def keras_fixed(folder: str) -> list[Asked]:
    import keras

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.export(folder, input_signature=[keras.InputSpec("float32", (1, 4), name="x")])

    x = rows(1, 4)
    return [("serving_default", {"x": x}, {"output_0": model(x)})]


def keras_archive(folder: str) -> list[Asked]:
    import keras
    import tensorflow as tf

    body = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="relu")])
    model = keras.Sequential([body, keras.layers.Dense(1)])
    archive = keras.export.ExportArchive()
    archive.track(model)
    spec = tf.TensorSpec([None, 4], tf.float32, name="x")
    archive.add_endpoint("serve", model.call, input_signature=[spec])
    archive.add_endpoint("embed", body.call, input_signature=[spec])
    archive.write_out(folder)

    x = rows(2, 4)
    return [
        ("serving_default", {"x": x}, {"output_0": model(x)}),
        ("embed", {"x": x}, {"output_0": body(x)}),
    ]


def keras_saved(folder: str) -> list[Asked]:
    import keras
    import tensorflow as tf

    model = keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(2)])
    tf.saved_model.save(model, folder)

    x = rows(2, 4)
    return [("serving_default", {"inputs": x}, {"output_0": model(x)})]  # whatever it is called


def keras_text(folder: str) -> list[Asked]:
    import keras

    words = keras.layers.TextVectorization(max_tokens=20, output_sequence_length=4)
    words.adapt(["a good day", "a bad day"])
    text = keras.Input((1,), dtype="string", name="text")
    embedded = keras.layers.Embedding(20, 2)(words(text))
    model = keras.Model(text, keras.layers.GlobalAveragePooling1D()(embedded))
    model.export(folder)

    given = np.array([["a good day"], ["nothing else"]], dtype=object)
    import tensorflow as tf

    return [("serving_default", {"text": given}, {"output_0": model(tf.constant(given))})]


def keras_open(folder: str) -> list[Asked]:
    import keras

    image = keras.Input((None, None, 3), name="image")
    seen = keras.layers.Conv2D(2, 3, strides=2)(keras.layers.Rescaling(1 / 255)(image))
    seen = keras.layers.Conv2D(2, 5)(seen)  # smaller images have nothing left for it
    model = keras.Model(image, keras.layers.GlobalAveragePooling2D()(seen))
    model.export(folder)

    x = 255 * rows(2, 16, 12, 3)
    return [("serving_default", {"image": x}, {"output_0": model(x)})]


# Keras 3 on JAX and PyTorch.


def keras_jax(folder: str) -> list[Asked]:
    import keras

    inputs = keras.Input((6, 4), name="x")
    attended = keras.layers.MultiHeadAttention(2, 2)(inputs, inputs)
    normal = keras.layers.BatchNormalization()(attended + inputs)
    model = keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(normal))
    model.export(folder)

    x = rows(2, 6, 4)
    return [("serving_default", {"x": x}, {"output_0": model.predict(x, verbose=0)})]


def keras_torch(folder: str) -> list[Asked]:
    import keras

    inputs = keras.Input((8, 8, 3), name="x")
    seen = keras.layers.Flatten()(keras.layers.Conv2D(2, 3, activation="gelu")(inputs))
    model = keras.Model(inputs, keras.layers.Dense(2)(seen))
    model.save("model.keras")
    code = "import keras, sys; keras.saving.load_model('model.keras').export(sys.argv[1])"
    tensorflow = {**os.environ, "KERAS_BACKEND": "tensorflow"}
    subprocess.run([sys.executable, "-c", code, folder], check=True, env=tensorflow)

    x = rows(2, 8, 8, 3)
    return [("serving_default", {"x": x}, {"output_0": model.predict(x, verbose=0)})]


# JAX.


OPEN = [None, "(batch, ...)"]


def _jax(folder: str, shapes: list[str | None], platforms: tuple[str, ...] | None) -> list[Asked]:
    import jax.numpy as jnp
    import tensorflow as tf
    from jax.experimental import jax2tf

    def predict(params: Any, x: Any) -> Any:
        return jnp.tanh(x @ params["w"] + params["b"])

    params = {"w": rows(4, 2), "b": rows(2)}
    module = tf.Module()
    module.params = tf.nest.map_structure(tf.Variable, params)
    converted = jax2tf.convert(
        predict, polymorphic_shapes=shapes, native_serialization_platforms=platforms
    )
    size = None if shapes[1] else 2
    module.serve = tf.function(
        lambda x: {"y": converted(module.params, x)},
        input_signature=[tf.TensorSpec([size, 4], tf.float32, name="x")],
        autograph=False,
    )
    tf.saved_model.save(module, folder, signatures={"serving_default": module.serve})

    x = rows(2, 4)
    return [("serving_default", {"x": x}, {"y": predict(params, x)})]


# TensorFlow 2 without Keras.


def module_signatures(folder: str) -> list[Asked]:
    import tensorflow as tf

    module = tf.Module()
    module.w = tf.Variable(rows(4, 2).astype("float64"))
    module.rank = tf.function(
        lambda x, ids: {"scores": x @ module.w, "next": ids + 1},
        input_signature=[
            tf.TensorSpec([None, 4], tf.float64, name="x"),
            tf.TensorSpec([None], tf.int64, name="ids"),
        ],
    )
    module.lower = tf.function(
        lambda text: {"text": tf.strings.lower(text), "length": tf.strings.length(text)},
        input_signature=[tf.TensorSpec([None], tf.string, name="text")],
    )
    tf.saved_model.save(module, folder, signatures={"rank": module.rank, "lower": module.lower})

    x, ids = rows(3, 4).astype("float64"), np.array([2**53 + 1, -5, 0])
    text = np.array(["ABC", "Déjà"], dtype=object)
    lower = module.lower(text)["text"].numpy()
    return [
        ("rank", {"x": x, "ids": ids}, {"scores": x @ module.w.numpy(), "next": ids + 1}),
        ("lower", {"text": text}, {"text": lower, "length": np.array([3, 6])}),
    ]


def module_scalar(folder: str) -> list[Asked]:
    import tensorflow as tf

    module = tf.Module()
    module.serve = tf.function(
        lambda x, temperature, sharp: {
            "y": tf.where(sharp, x / temperature, x),
            "total": tf.reduce_sum(x),
        },
        input_signature=[
            tf.TensorSpec([None, 3], tf.float32, name="x"),
            tf.TensorSpec([], tf.float32, name="temperature"),
            tf.TensorSpec([], tf.bool, name="sharp"),
        ],
    )
    tf.saved_model.save(module, folder, signatures={"serving_default": module.serve})

    x = rows(2, 3)
    given = {"x": x, "temperature": np.float32(0.5), "sharp": np.array(True)}
    return [("serving_default", given, {"y": x / np.float32(0.5), "total": x.sum()})]


def module_unknown_rank(folder: str) -> list[Asked]:
    import tensorflow as tf

    module = tf.Module()
    module.serve = tf.function(
        lambda x: {"y": x * 2.0}, input_signature=[tf.TensorSpec(None, tf.float32, name="x")]
    )
    tf.saved_model.save(module, folder, signatures={"serving_default": module.serve})
    return [("serving_default", {"x": rows(2, 1, 3)}, {"y": rows(2, 1, 3) * 2})]


def module_ragged(folder: str) -> list[Asked]:
    import tensorflow as tf

    module = tf.Module()
    module.serve = tf.function(
        lambda x: {"total": tf.reduce_sum(x, axis=1)},
        input_signature=[tf.RaggedTensorSpec([None, None], tf.float32)],
    )
    tf.saved_model.save(module, folder, signatures={"serving_default": module.serve})

    values, row_splits = rows(5), np.array([0, 2, 2, 5])
    total = module.serve(tf.RaggedTensor.from_row_splits(values, row_splits))["total"]
    return [("serving_default", {"x": values, "x_1": row_splits}, {"total": total})]


def module_pictures(folder: str) -> list[Asked]:
    import tensorflow as tf

    def serve(image_bytes: Any) -> Any:
        decode = lambda one: tf.io.decode_png(one, channels=3)  # noqa: E731
        pictures = tf.map_fn(decode, image_bytes, fn_output_signature=tf.uint8)
        return {"mean": tf.reduce_mean(tf.cast(pictures, tf.float32), axis=[1, 2])}

    module = tf.Module()
    spec = tf.TensorSpec([None], tf.string, name="image_bytes")
    module.serve = tf.function(serve, input_signature=[spec])
    tf.saved_model.save(module, folder, signatures={"serving_default": module.serve})

    picture = (rows(4, 5, 3) * 100 + 100).astype("uint8")
    png = np.array([tf.io.encode_png(picture).numpy()], dtype=object)
    mean = picture.astype("float32").mean(axis=(0, 1))[None]
    return [("serving_default", {"image_bytes": png}, {"mean": mean})]


def module_unsigned(folder: str) -> list[Asked]:
    import tensorflow as tf

    class Embedding(tf.Module):  # type: ignore[misc]
        @tf.function  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            return x * 2.0

    tf.saved_model.save(Embedding(), folder)
    return []


# TensorFlow 1.


def tf1_simple(folder: str) -> list[Asked]:
    import tensorflow as tf

    v1, x = tf.compat.v1, rows(2, 4)
    with tf.Graph().as_default(), v1.Session() as session:
        given = v1.placeholder(tf.float32, [None, 4], name="x")
        y = tf.nn.softmax(tf.matmul(given, v1.get_variable("w", [4, 2], use_resource=False)))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, folder, inputs={"x": given}, outputs={"y": y})
        answer = session.run(y, {given: x})
    return [("serving_default", {"x": x}, {"y": answer})]


def tf1_tags(folder: str) -> list[Asked]:
    import tensorflow as tf

    v1, x = tf.compat.v1, rows(2, 4)
    builder = v1.saved_model.Builder(folder)
    asked = {}
    for tags in (["train"], ["serve"], ["serve", "gpu"]):
        with tf.Graph().as_default(), v1.Session() as session:
            v1.set_random_seed(SEED)
            given = v1.placeholder(tf.float32, [None, 4])
            keep = v1.placeholder_with_default(1.0, [])
            y = v1.nn.dropout(tf.matmul(given, v1.get_variable("w", [4, 2])), rate=1.0 - keep)
            best = tf.gather(tf.constant(["yes", "no"]), tf.argmax(y, axis=1))
            session.run(v1.global_variables_initializer())
            predict = v1.saved_model.predict_signature_def
            signatures = {
                "serving_default": predict({"input/x:0": given}, {"y": y}),
                "with_keep": predict({"x": given, "keep": keep}, {"y": y, "best_class": best}),
            }
            if tags == ["train"]:
                builder.add_meta_graph_and_variables(session, tags, signatures)
                weights = session.run(v1.global_variables())
            else:
                builder.add_meta_graph(tags, signatures)
                for one, value in zip(v1.global_variables(), weights, strict=True):
                    one.load(value, session)
                asked = {
                    "y": session.run(y, {given: x}),
                    "best_class": session.run(best, {given: x}),
                }
    builder.save()
    both = {"x": x, "keep": np.float32(1)}
    return [("serving_default", {"input/x:0": x}, {"y": asked["y"]}), ("with_keep", both, asked)]


def tf1_examples(folder: str) -> list[Asked]:
    import tensorflow as tf

    v1 = tf.compat.v1
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=[0.75]))
    example = tf.train.Example(features=tf.train.Features(feature={"x": feature}))
    given = np.array([example.SerializeToString()], dtype=object)
    with tf.Graph().as_default(), v1.Session() as session:
        serialized = v1.placeholder(tf.string, [None], "examples")
        x = v1.io.parse_example(serialized, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"]
        scores = tf.concat([x, 1.0 - x], axis=1)
        classes = tf.tile([["yes", "no"]], [tf.shape(x)[0], 1])
        of = v1.saved_model
        classify = of.classification_signature_def(serialized, classes, scores)
        regress = of.regression_signature_def(serialized, x * 10.0)
        predict = of.predict_signature_def({"examples": serialized}, {"scores": scores})
        builder = of.Builder(folder)
        signatures = {"serving_default": classify, "regress": regress, "predict": predict}
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
        answer, labels = session.run([scores, classes], {serialized: given})
    both = {"scores": answer, "classes": labels}
    return [
        ("predict", {"examples": given}, {"scores": answer}),
        ("serving_default", {"inputs": given}, both),
    ]


# Keras 2 (tf_keras).


def keras2_saved(folder: str) -> list[Asked]:
    import tf_keras

    layers = tf_keras.layers
    x = tf_keras.Input((None, 4), name="x")
    model = tf_keras.Model(x, layers.GlobalMaxPooling1D(name="most")(layers.Dense(2)(x)))
    model.save(folder, save_format="tf")

    x = rows(2, 5, 4)
    return [("serving_default", {"x": x}, {"most": model.predict(x, verbose=0)})]


def keras2_export(folder: str) -> list[Asked]:
    import tf_keras

    layers = tf_keras.layers
    model = tf_keras.Sequential([layers.Dense(2, input_shape=(4,), name="first")])
    model.export(folder)

    x = rows(2, 4)
    return [("serving_default", {"first_input": x}, {"output_0": model.predict(x, verbose=0)})]


def transformer(folder: str) -> list[Asked]:
    """As TFPreTrainedModel.save_pretrained(saved_model=True) of transformers 4 wrote it."""
    import tensorflow as tf
    import tf_keras

    class Encoder(tf_keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.kinds = (tf_keras.layers.Embedding(size, 4) for size in (30, 2))
            self.attention = tf_keras.layers.MultiHeadAttention(2, 2)
            self.pooler = tf_keras.layers.Dense(4, activation="tanh")

        def call(self, inputs: Any) -> Any:
            x = self.words(inputs["input_ids"]) + self.kinds(inputs["token_type_ids"])
            seen = tf.cast(inputs["attention_mask"], tf.bool)[:, None, :]
            hidden = self.attention(x, x, attention_mask=seen)
            return {"last_hidden_state": hidden, "pooler_output": self.pooler(hidden[:, 0])}

    names = ("input_ids", "attention_mask", "token_type_ids")
    spec = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in names}
    model = Encoder()
    given = {name: np.array([[5, 1, 1], [7, 1, 0]], "int32") % 29 for name in names[:1]}
    given |= {"attention_mask": np.array([[1, 1, 1], [1, 1, 0]], "int32")}
    given |= {"token_type_ids": np.array([[0, 0, 1], [0, 1, 1]], "int32")}
    answer = model(given)
    serving = tf.function(model.call, input_signature=[spec])
    model.save(folder, save_format="tf", signatures={"serving_default": serving})
    return [("serving_default", given, answer)]


# Decision forests.


def _table() -> Any:
    import pandas

    a, b = rows(100, 2).T
    words = ["red" if one > 0 else "blue" for one in b]
    return pandas.DataFrame({"a": a, "colour": words, "label": (a > 0.2).astype(int)})


def forest_ydf(folder: str) -> list[Asked]:
    import ydf

    table = _table()
    learner = ydf.GradientBoostedTreesLearner(label="label", num_trees=5, max_depth=3)
    model = learner.train(table)
    model.to_tensorflow_saved_model(folder, mode="tf")

    few = table.head(3)
    given = {"a": few["a"].to_numpy(), "colour": few["colour"].to_numpy(dtype=object)}
    return [("serving_default", given, {"output": np.asarray(model.predict(few))})]


def forest_tfdf(folder: str) -> list[Asked]:
    import tensorflow_decision_forests as tfdf

    table = _table()
    model = tfdf.keras.RandomForestModel(num_trees=3, max_depth=3)
    model.fit(tfdf.keras.pd_dataframe_to_tf_dataset(table, label="label"), verbose=0)
    model.save(folder)

    few = table.head(3)
    given = {"a": few["a"].to_numpy(), "colour": few["colour"].to_numpy(dtype=object)}
    answer = model.predict(tfdf.keras.pd_dataframe_to_tf_dataset(few, label="label"), verbose=0)
    return [("serving_default", given, {"output_1": answer})]


MAKERS: dict[str, Maker] = {
    maker.__name__.replace("_", "-"): maker
    for maker in (
        keras_tensorflow, keras_fixed, keras_archive, keras_saved, keras_text, keras_open,
        keras_jax, keras_torch, module_signatures, module_scalar, module_unknown_rank,
        module_ragged, module_pictures, module_unsigned,
        tf1_simple, tf1_tags, tf1_examples, keras2_saved, keras2_export, transformer,
        forest_ydf, forest_tfdf,
    )
}  # fmt: skip
MAKERS |= {
    "jax-open": partial(_jax, shapes=OPEN, platforms=("cpu",)),
    "jax-fixed": partial(_jax, shapes=[None, None], platforms=None),
    "jax-cuda": partial(_jax, shapes=OPEN, platforms=("cuda",)),
    "jax-platforms": partial(_jax, shapes=OPEN, platforms=("cpu", "cuda")),
}
BACKENDS = {"keras-jax": "jax", "keras-torch": "torch"}
NEEDS = {
    "keras": "keras", "jax": "jax", "keras2": "tf_keras", "transformer": "tf_keras",
    "module": "tensorflow", "tf1": "tensorflow", "forest": "ydf",
}  # fmt: skip


def listed(value: Any) -> Any:
    """An array's list as JSON: bytes that are no text as {"b64": …}."""
    if isinstance(value, list):
        return [listed(one) for one in value]
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}


def make(name: str) -> None:
    """In a process of its own, in an empty folder: frameworks keep state."""
    export, answers = HERE / "models" / name / "1", HERE / "answers" / f"{name}.json"
    shutil.rmtree(export.parent, ignore_errors=True)
    framework = NEEDS[name.partition("-")[0]]
    if "keras" in framework:
        __import__(framework).utils.set_random_seed(SEED)
    np.random.seed(SEED)
    asked = MAKERS[name](str(export))
    for empty in (export / "fingerprint.pb", export / "keras_metadata.pb"):
        empty.unlink(missing_ok=True)
    versions = {}
    for package in VERSIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    said = {
        "versions": versions,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "asked": [
            {
                "signature": signature,
                "inputs": {key: listed(np.asarray(one).tolist()) for key, one in inputs.items()},
                "outputs": {key: listed(np.asarray(one).tolist()) for key, one in outputs.items()},
            }
            for signature, inputs, outputs in asked
        ],
    }
    answers.parent.mkdir(exist_ok=True)
    answers.write_text(json.dumps(said) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="Fixtures (default: all possible)")
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.in_this_process:
        make(given.names[0])
        return 0
    failed = []
    for name in given.names or MAKERS:
        if not given.names and importlib.util.find_spec(NEEDS[name.partition("-")[0]]) is None:
            continue
        own = {**os.environ, "KERAS_BACKEND": BACKENDS.get(name, "tensorflow")}
        command = [sys.executable, str(Path(__file__).resolve()), "--in-this-process", name]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, cwd=folder, env=own, check=False)
        failed += [name] if done.returncode else []
        print(f"{name}: {'failed' if done.returncode else 'made'}", flush=True)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
