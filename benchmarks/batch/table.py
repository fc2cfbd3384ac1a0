"""The table that is scored, its model, and TensorFlow's own answers.

    python -m benchmarks.batch.table FOLDER ROWS

writes the model and answers.npy: in a process of its own, so that who measures stays without TensorFlow.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from servable_tensors.tensors import Array

COLUMNS, SEED = 8, 0
CSV, JSON_LINES = "text/csv", "application/jsonlines"
_AT_ONCE = 50_000


def rows(count: int) -> Array:
    """Sixteenths below 64, whose weighted sums float32 holds exactly, whatever the order of adding."""
    return (np.random.default_rng(SEED).integers(0, 1024, (count, COLUMNS)) / 16).astype(np.float32)


def lines(table: Array, form: str) -> Iterator[bytes]:
    """A table as text, by some thousand lines."""
    begin, end = ("[", "]\n") if form == JSON_LINES else ("", "\n")
    for start in range(0, len(table), _AT_ONCE):
        part = table[start : start + _AT_ONCE].tolist()
        text = "".join(f"{begin}{','.join(map(repr, row))}{end}" for row in part)
        yield text.encode()


def model_and_answers(folder: Path, count: int) -> tuple[Path, Array]:
    """The SavedModel's folder, and what TensorFlow computes with it for each row."""
    command = [sys.executable, "-m", "benchmarks.batch.table", str(folder), str(count)]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "model", np.load(folder / "answers.npy")


def _write(folder: Path, count: int) -> None:
    import tensorflow as tf

    weights = tf.constant([2.0**power for power in range(COLUMNS)])

    class Weighted(tf.Module):  # type: ignore[misc]
        @tf.function(input_signature=[tf.TensorSpec([None, COLUMNS], tf.float32, name="x")])  # type: ignore[untyped-decorator]
        def serve(self, x: Any) -> Any:
            return {"y": tf.reduce_sum(x * weights, axis=1)}

    model = Weighted()
    tf.saved_model.save(model, str(folder / "model"), signatures={"serving_default": model.serve})
    loaded = tf.saved_model.load(str(folder / "model")).signatures["serving_default"]
    np.save(folder / "answers.npy", loaded(x=tf.constant(rows(count)))["y"].numpy())


if __name__ == "__main__":
    _write(Path(sys.argv[1]), int(sys.argv[2]))
