"""Creates small models for the articles' presets, at their input shapes, with golden files.

    python -m examples.make_models [--out DIR]

DIR (default: this folder) receives PRESET/model/ and PRESET/golden/ of all five. The weights are
drawn from a seed and not trained: shapes, operations, and sizes of requests are those of a real
model, and the outputs mean nothing. The same TensorFlow gives the same files each time.
"""

import argparse
import base64
import itertools
import json
import math
import runpy
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from examples.ranker.deepfm import FIELDS, DeepFM
from servable_tensors import wire

SEED = 26
HERE = Path(__file__).parent
Outputs = Mapping[str, Any]

CANDIDATES, RANKING_BUCKETS = 500, 1500  # the article's rows a request; a small table of features
QUERY_TOKENS, QUERY_VOCABULARY, QUERY_WIDTH, ITEMS, NEAREST = 32, 500, 32, 500, 10
PIXELS, CLASSES, BOXES_PER_CELL, MOST_BOXES = 300, 20, 6, 100  # an SSD300 of PASCAL VOC's classes
PICTURE = tf.TensorSpec([PIXELS, PIXELS, 3], tf.float32)
TEXT_TOKENS, TEXT_VOCABULARY, TEXT_WIDTH = 128, 300, 32
# What the large models answer, a name and a width each: for a text, or for each of its tokens.
TEXT_MODELS = {"topics": 20, "sentiment": 3, "entities": 9, "similarity": 64}
FOR_EACH_TOKEN = ("entities",)


class RandomModel(tf.Module):  # type: ignore[misc]
    """A module whose weights are drawn from a seed."""

    def __init__(self, name: str, seed: int = SEED) -> None:
        super().__init__(name=name)
        self._random = np.random.default_rng(seed)

    def draw_weights(self, name: str, *shape: int, deviation: float | None = None) -> tf.Variable:
        """Return a variable with normally distributed values.

        By default, the deviation makes a layer's outputs as large as its inputs.
        """
        deviation = math.sqrt(2 / math.prod(shape[:-1])) if deviation is None else deviation
        return tf.Variable(self._random.normal(0, deviation, shape).astype(np.float32), name=name)


def declare_signature(**shapes: tuple[Any, list[int | None]]) -> Callable[[Any], Any]:
    """Return a decorator for a method that takes tensors of these types and shapes.

    A first dimension is added to each shape.
    """
    specs = [tf.TensorSpec([None, *shape], kind, name) for name, (kind, shape) in shapes.items()]
    decorate: Callable[[Any], Any] = tf.function(input_signature=specs)
    return decorate


class Retrieval(RandomModel):
    """A two-tower retrieval model: a query's embedding, and the items with the nearest ones."""

    def __init__(self) -> None:
        super().__init__("retrieval")
        self.tokens = self.draw_weights("tokens", QUERY_VOCABULARY, QUERY_WIDTH, deviation=1.0)
        self.kernels = [
            self.draw_weights(f"kernel_{n}", QUERY_WIDTH, QUERY_WIDTH) for n in range(2)
        ]
        self.items = self.draw_weights("items", ITEMS, QUERY_WIDTH, deviation=1.0)

    @declare_signature(token_ids=(tf.int64, [QUERY_TOKENS]))
    def serve(self, token_ids: tf.Tensor) -> Outputs:
        """Return embedding, item ids, and cosines for token ids (0 after the query's end)."""
        used = tf.cast(token_ids > 0, tf.float32)[:, :, tf.newaxis]
        vectors = tf.gather(self.tokens, tf.math.floormod(token_ids, QUERY_VOCABULARY))
        hidden = tf.reduce_sum(vectors * used, axis=1) / (1.0 + tf.reduce_sum(used, axis=1))
        hidden = tf.matmul(tf.nn.relu(tf.matmul(hidden, self.kernels[0])), self.kernels[1])
        embedding = tf.math.l2_normalize(hidden, axis=1)
        cosines = tf.matmul(embedding, tf.math.l2_normalize(self.items, axis=1), transpose_b=True)
        scores, items = tf.math.top_k(cosines, NEAREST)
        return {"embedding": embedding, "items": tf.cast(items, tf.int64), "scores": scores}


class Detector(RandomModel):
    """A single-shot detector: convolutions, boxes at two scales of cells, non-maximum suppression."""

    def __init__(self) -> None:
        super().__init__("detector")
        widths = (3, 8, 12, 16, 24, 32)
        layers = enumerate(itertools.pairwise(widths))
        self.kernels = [self.draw_weights(f"kernel_{n}", 3, 3, *pair) for n, pair in layers]
        per_cell = BOXES_PER_CELL * (4 + CLASSES)
        self.heads = [self.draw_weights(f"head_{width}", width, per_cell) for width in widths[-2:]]

    @declare_signature(image_bytes=(tf.string, []))
    def serve(self, image_bytes: tf.Tensor) -> Outputs:
        """Return boxes, scores, classes, and count for JPEG or PNG files.

        A box is top, left, bottom, right, from 0 to 1.
        """
        images = tf.map_fn(_decode_pixels, image_bytes, fn_output_signature=PICTURE)
        hidden, boxes, scores = images, [], []
        for number, kernel in enumerate(self.kernels, start=len(self.heads) - len(self.kernels)):
            hidden = tf.nn.relu(tf.nn.conv2d(hidden, kernel, strides=2, padding="SAME"))
            if number >= 0:
                found = _compute_boxes(tf.tensordot(hidden, self.heads[number], 1))
                boxes.append(found[0])
                scores.append(found[1])
        kept = tf.image.combined_non_max_suppression(
            tf.concat(boxes, 1)[:, :, tf.newaxis],
            tf.concat(scores, 1),
            max_output_size_per_class=MOST_BOXES,
            max_total_size=MOST_BOXES,
            iou_threshold=0.5,
            score_threshold=0.94,
        )
        return {
            "boxes": kept.nmsed_boxes,
            "scores": kept.nmsed_scores,
            "classes": tf.cast(kept.nmsed_classes, tf.int64),
            "count": kept.valid_detections,
        }


def _decode_pixels(file: tf.Tensor) -> tf.Tensor:
    """Return a file's pixels from -1 to 1, as float32 [300, 300, 3]."""
    decoded = tf.io.decode_jpeg(file, channels=3)  # PNG too
    return tf.image.resize(decoded, [PIXELS, PIXELS]) / 127.5 - 1.0


def _compute_boxes(predicted: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Convert [n, size, size, boxes * (4 + classes)] to boxes and scores.

    Boxes are [n, boxes, 4], scores [n, boxes, classes].
    """
    size = predicted.shape[1]
    cells = tf.reshape(predicted, [-1, size * size * BOXES_PER_CELL, 4 + CLASSES])
    centres = (np.arange(size, dtype=np.float32) + 0.5) / size
    sides = np.linspace(1.0, 4.0, BOXES_PER_CELL, dtype=np.float32) / size
    grid = np.stack(np.meshgrid(centres, centres, sides, indexing="ij"), axis=-1).reshape(-1, 3)
    centre = grid[:, :2] + 0.1 * grid[:, 2:] * tf.tanh(cells[:, :, :2])
    half = 0.5 * grid[:, 2:] * tf.exp(tf.tanh(cells[:, :, 2:4]))
    boxes = tf.clip_by_value(tf.concat([centre - half, centre + half], axis=-1), 0.0, 1.0)
    return boxes, tf.sigmoid(2.0 * cells[:, :, 4:] - 5.0)


class TextModel(RandomModel):
    """One transformer block over a text's tokens, and a head."""

    def __init__(self, name: str) -> None:
        super().__init__(name, SEED + [*TEXT_MODELS].index(name))
        width = TEXT_WIDTH
        self.for_each_token = name in FOR_EACH_TOKEN
        self.tokens = self.draw_weights("tokens", TEXT_VOCABULARY, width, deviation=1.0)
        self.attention = self.draw_weights(
            "attention", width, 3 * width, deviation=1 / math.sqrt(width)
        )
        self.wide = self.draw_weights("wide", width, 2 * width)
        self.narrow = self.draw_weights("narrow", 2 * width, width)
        self.head = self.draw_weights("head", width, TEXT_MODELS[name])

    @declare_signature(
        input_ids=(tf.int32, [TEXT_TOKENS]), attention_mask=(tf.int32, [TEXT_TOKENS])
    )
    def serve(self, input_ids: tf.Tensor, attention_mask: tf.Tensor) -> Outputs:
        """Return the scores of a text, or of each token.

        `input_ids` are token ids; `attention_mask` is 1 where there is a token.
        """
        used = tf.cast(attention_mask, tf.float32)
        tokens = tf.gather(self.tokens, tf.math.floormod(input_ids, TEXT_VOCABULARY))
        queries, keys, values = tf.split(tf.tensordot(tokens, self.attention, 1), 3, axis=-1)
        weights = tf.matmul(queries, keys, transpose_b=True) / math.sqrt(TEXT_WIDTH)
        attended = tf.nn.softmax(weights - 1e4 * (1.0 - used[:, tf.newaxis, :]))
        hidden = tokens + tf.matmul(attended, values)
        wide = tf.nn.relu(tf.tensordot(hidden, self.wide, 1))
        hidden = (hidden + tf.tensordot(wide, self.narrow, 1)) * used[:, :, tf.newaxis]
        if not self.for_each_token:
            count = tf.reduce_sum(used, axis=1, keepdims=True)
            hidden = tf.reduce_sum(hidden, axis=1) / tf.maximum(count, 1.0)
        return {"scores": tf.tensordot(hidden, self.head, 1)}


def build_page_network(code: Mapping[str, Any]) -> keras.Model:
    """Build a multi-input, multi-task Keras network over the elements and the words of a page.

    `code` is transforms.py, which computes its inputs.
    """
    keras.utils.set_random_seed(SEED)
    layers = keras.layers
    wide = keras.initializers.RandomNormal(stddev=1.0)
    tags = keras.Input((code["ELEMENTS"],), dtype="int64", name="tags")
    depths = keras.Input((code["ELEMENTS"], 1), dtype="float32", name="depths")
    words = keras.Input((code["WORDS"],), dtype="int64", name="words")
    counts = keras.Input((code["COUNTS"],), dtype="float32", name="counts")
    elements = layers.Embedding(code["TAG_BUCKETS"], 8, wide, name="tag")(tags)
    elements = layers.Concatenate(name="element")([elements, depths])
    elements = layers.Conv1D(16, 5, padding="same", activation="relu", name="near")(elements)
    text = layers.Embedding(code["WORD_BUCKETS"], 16, wide, name="word")(words)
    parts = [layers.GlobalMaxPooling1D(name=f"max_{n}")(x) for n, x in enumerate((elements, text))]
    page = layers.Concatenate(name="page")([*parts, counts])
    page = layers.Dense(32, activation="relu", name="shared")(page)
    kinds, languages = len(code["PAGE_TYPES"]), len(code["LANGUAGES"])
    zones = layers.Dense(1, activation="sigmoid", name="zone")(elements)
    outputs = {
        "page_type": layers.Dense(kinds, activation="softmax", name="page_type")(page),
        "language": layers.Dense(languages, activation="softmax", name="language")(page),
        "sells": layers.Dense(1, activation="sigmoid", name="sells")(page),
        "zones": layers.Flatten(name="zones")(zones),
    }
    return keras.Model([tags, depths, words, counts], outputs, name="pages")


def pages(out: Path) -> None:
    """Write the model and the golden answer; golden/page.html is written by hand."""
    code = runpy.run_path(str(HERE / "pages" / "code" / "transforms.py"))
    network = build_page_network(code)
    # Keras' own export writes its variables in another order each time.
    module = tf.Module()
    module.weights = [weight.value for weight in network.weights]
    shapes = {one.name: (one.dtype, list(one.shape[1:])) for one in network.inputs}
    module.serve = declare_signature(**shapes)(
        lambda tags, depths, words, counts: network([tags, depths, words, counts])
    )
    save(module, out / "model" / "1")
    inputs = code["preprocess"]((HERE / "pages" / "golden" / "page.html").read_bytes(), None)
    outputs = module.serve(**{name: tf.constant(array) for name, array in inputs.items()})
    answer = code["postprocess"]({name: one.numpy() for name, one in outputs.items()}, None)
    _write(out / "golden" / "answer.json", answer)


def ranking(out: Path) -> None:
    """Write the model with a PredictRequest as the article sends it, and its golden answer.

    The ids are written as varints.
    """
    model = DeepFM(SEED, RANKING_BUCKETS)
    save(model, out / "model" / "1")
    random = np.random.default_rng(SEED)
    ids = random.integers(RANKING_BUCKETS, size=(CANDIDATES, FIELDS))
    values = random.random((CANDIDATES, FIELDS), np.float32)
    request = wire.PredictRequest()
    for name, array, kind in (("feat_ids", ids, "int64"), ("feat_vals", values, "float")):
        tensor = request.inputs[name]
        tensor.dtype = wire.DataType[f"DT_{kind.upper()}"]
        for size in array.shape:
            tensor.tensor_shape.dim.add(size=size)
        getattr(tensor, f"{kind}_val").extend(array.ravel().tolist())
    out.joinpath("golden").mkdir(exist_ok=True)
    (out / "golden" / "request.pb").write_bytes(request.SerializeToString(deterministic=True))
    prob = model.serve(tf.constant(ids), tf.constant(values))["prob"]
    _write(out / "golden" / "answer.json", {"outputs": convert_to_lists(prob)})


def retrieval(out: Path) -> None:
    model = Retrieval()
    save(model, out / "model" / "1")
    ids = np.random.default_rng(SEED).integers(1, QUERY_VOCABULARY, size=(3, QUERY_TOKENS))
    ids[np.arange(QUERY_TOKENS) >= np.array([[5], [12], [QUERY_TOKENS]])] = 0
    _write_rows(out / "golden", {"token_ids": ids}, {"answer.json": model.serve(tf.constant(ids))})


def detector(out: Path) -> None:
    model = Detector()
    save(model, out / "model" / "1")
    random = np.random.default_rng(SEED)
    # Patches of different colours: no two places score alike, whose order would be an accident.
    image = np.kron(random.integers(0, 256, (10, 10, 3)), np.ones((30, 30, 1)))
    file = tf.io.encode_jpeg(image.astype(np.uint8)).numpy()
    encoded = [{"image_bytes": {"b64": base64.b64encode(file).decode()}}]
    _write(out / "golden" / "request.json", {"instances": encoded})
    answer = list_rows(model.serve(tf.constant([file])))
    _write(out / "golden" / "answer.json", {"predictions": answer})


def large_models(out: Path) -> None:
    """Write every text model, one request that all of them accept, and the answer of each."""
    random = np.random.default_rng(SEED)
    ids = random.integers(1, TEXT_VOCABULARY, size=(2, TEXT_TOKENS)).astype(np.int32)
    mask = (np.arange(TEXT_TOKENS) < np.array([[20], [TEXT_TOKENS]])).astype(np.int32)
    inputs = {"input_ids": ids * mask, "attention_mask": mask}
    answers = {}
    for name in TEXT_MODELS:
        model = TextModel(name)
        save(model, out / "model" / name / "1")
        answers[f"{name}.json"] = model.serve(**{key: tf.constant(x) for key, x in inputs.items()})
    _write_rows(out / "golden", inputs, answers)


def save(model: tf.Module, version: Path) -> None:
    """Write a SavedModel with the signature serving_default."""
    signatures = {"serving_default": model.serve}
    # Renamed when it is whole: a stopped export leaves the old model.
    exporting = version.parent.with_name(f"{version.parent.name}.exporting")
    shutil.rmtree(exporting, ignore_errors=True)
    tf.saved_model.save(model, str(exporting), signatures=signatures)
    # It names the files with a random id, and nothing that serves them reads it.
    (exporting / "fingerprint.pb").unlink(missing_ok=True)
    shutil.rmtree(version, ignore_errors=True)
    version.parent.mkdir(parents=True, exist_ok=True)
    exporting.rename(version)


def convert_to_lists(tensor: tf.Tensor) -> Any:
    """Return the tensor as lists.

    NumPy writes the shortest decimal that reads back as the same float32.
    """
    array = tensor.numpy()
    return (array.astype(str).astype(float) if array.dtype.kind == "f" else array).tolist()


def list_rows(outputs: Outputs) -> list[Any]:
    """Return a value for each row, or an object for several outputs, like TensorFlow Serving."""
    columns = {name: convert_to_lists(tensor) for name, tensor in outputs.items()}
    if len(columns) == 1:
        return list(*columns.values())
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _write_rows(folder: Path, inputs: Mapping[str, Any], answers: Mapping[str, Outputs]) -> None:
    rows = zip(*(array.tolist() for array in inputs.values()), strict=True)
    instances = [dict(zip(inputs, row, strict=True)) for row in rows]
    _write(folder / "request.json", {"instances": instances})
    for file, outputs in answers.items():
        _write(folder / file, {"predictions": list_rows(outputs)})


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.make_models", description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, metavar="DIR")
    out: Path = parser.parse_args().out
    tf.config.experimental.enable_op_determinism()
    for make in (detector, large_models, pages, ranking, retrieval):
        make(out / make.__name__)


if __name__ == "__main__":
    main()
