"""Trains the ranker briefly, and writes its SavedModel and its golden answers.

    python -m examples.ranker.export [--out DIR]

DIR (default: this folder) receives model/1/ and golden/.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from examples.ranker.deepfm import BUCKETS, FIELDS, DeepFM

SEED = 20
STEPS = 300
BATCH_ROWS = 256
NUMERIC_FIELDS = 13


class ClickLog(NamedTuple):
    """A generated click log: enough structure to learn, nothing to download.

    feat_ids int64 [n, 39], feat_vals float32 [n, 39], clicked float32 [n] of 0 and 1.
    """

    feat_ids: npt.NDArray[np.int64]
    feat_vals: npt.NDArray[np.float32]
    clicked: npt.NDArray[np.float32]


def generate_click_log(rows: int, seed: int) -> ClickLog:
    """Return `rows` impressions whose clicks depend on the features.

    The same seed gives the same log.
    """
    random = np.random.default_rng(seed)
    per_field = BUCKETS // FIELDS
    # A field owns a range of ids; popular values are common, as in any real log.
    within = np.minimum(random.zipf(1.3, size=(rows, FIELDS)) - 1, per_field - 1)
    within[:, :NUMERIC_FIELDS] = 0
    feat_ids = (np.arange(FIELDS) * per_field + within).astype(np.int64)

    feat_vals = np.ones((rows, FIELDS), np.float32)
    feat_vals[:, :NUMERIC_FIELDS] = random.random((rows, NUMERIC_FIELDS)).round(4)

    # The rule behind the clicks has its own seed: it stays when the log changes.
    rule = np.random.default_rng(7)
    taste = rule.normal(0.0, 0.6, size=BUCKETS)
    leaning = rule.normal(0.0, 0.4, size=(BUCKETS, 2))
    pull = (leaning[feat_ids] * feat_vals[:, :, np.newaxis]).sum(axis=1)
    score = (taste[feat_ids] * feat_vals).sum(axis=1) + pull[:, 0] * pull[:, 1]
    chance = 1.0 / (1.0 + np.exp(np.median(score) - score))
    clicked = (random.random(rows) < chance).astype(np.float32)
    return ClickLog(feat_ids, feat_vals, clicked)


def train(model: DeepFM, log: ClickLog) -> float:
    """Run Adagrad over the log, one batch after the other; return the last batch's mean loss."""
    squares = [tf.Variable(tf.fill(v.shape, 0.1)) for v in model.trainable_variables]
    loss = tf.constant(0.0)
    for step in range(STEPS):
        rows = slice(step * BATCH_ROWS, (step + 1) * BATCH_ROWS)
        with tf.GradientTape() as tape:
            logits = model.compute_logits(
                tf.constant(log.feat_ids[rows]), tf.constant(log.feat_vals[rows])
            )
            clicked = tf.constant(log.clicked[rows])
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(clicked, logits))
        gradients = tape.gradient(loss, model.trainable_variables)
        for variable, square, gradient in zip(
            model.trainable_variables, squares, gradients, strict=True
        ):
            dense = tf.convert_to_tensor(gradient)
            square.assign_add(tf.square(dense))
            variable.assign_sub(0.05 * dense / tf.sqrt(square))
    return float(loss)


def write_golden(model: DeepFM, folder: Path) -> None:
    """Write requests in both JSON forms, and TensorFlow's outputs for them."""
    folder.mkdir(parents=True, exist_ok=True)
    log = generate_click_log(8, seed=SEED + 1)
    # NumPy writes the shortest decimal that reads back as the same float32.
    ids, vals = log.feat_ids.tolist(), [[float(str(v)) for v in row] for row in log.feat_vals]

    def compute_probabilities(rows: int) -> list[float]:
        # Computed per request: the last bits of a row depend on how many are computed with it.
        feed = (tf.constant(log.feat_ids[:rows]), tf.constant(log.feat_vals[:rows]))
        return [float(str(p)) for p in model.serve(*feed)["prob"].numpy()]

    columnar = {"inputs": {"feat_ids": ids, "feat_vals": vals}}
    _write(folder / "request-columnar.json", columnar)
    _write(folder / "answer-columnar.json", {"outputs": compute_probabilities(8)})
    rows = [{"feat_ids": i, "feat_vals": v} for i, v in zip(ids, vals, strict=True)][:3]
    _write(folder / "request-rows.json", {"instances": rows})
    _write(folder / "answer-rows.json", {"predictions": compute_probabilities(3)})


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.ranker.export", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, metavar="DIR")
    out: Path = parser.parse_args().out

    tf.config.experimental.enable_op_determinism()
    tf.random.set_seed(SEED)
    model = DeepFM(SEED)
    loss = train(model, generate_click_log(STEPS * BATCH_ROWS, SEED))

    # Beside and renamed: a stopped export leaves the old model whole.
    version, beside = out / "model" / "1", out / "model.exporting"
    shutil.rmtree(beside, ignore_errors=True)
    tf.saved_model.save(model, str(beside), signatures={"serving_default": model.serve})
    shutil.rmtree(version, ignore_errors=True)
    version.parent.mkdir(parents=True, exist_ok=True)
    beside.rename(version)
    write_golden(model, out / "golden")

    size = sum(path.stat().st_size for path in version.rglob("*") if path.is_file())
    spread = np.ptp([*json.loads((out / "golden/answer-columnar.json").read_text())["outputs"]])
    print(f"{version}: {size:,} bytes, loss {loss:.3f}, golden answers spread over {spread:.3f}")


if __name__ == "__main__":
    main()
