"""What is asked: a small model made on the spot, and one JSON row of 2 KB."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = 256
SEED = 20_261_121
EMPTY_HANDLER = b"def handler(data, context):\n    return b'', 'application/json'\n"


def body() -> bytes:
    """{"instances": [[256 numbers of four decimals]]}: 2 KB."""
    row = np.random.default_rng(SEED).random(COLUMNS).round(4).tolist()
    return json.dumps({"instances": [row]}, separators=(",", ":")).encode()


def save_model(folder: Path) -> None:
    """One dense layer, 256 numbers to 1: next to nothing to compute, so that the rest shows."""
    import tensorflow as tf

    class Layer(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.weights = tf.Variable(np.ones((COLUMNS, 1), np.float32))

        @tf.function(input_signature=[tf.TensorSpec([None, COLUMNS], tf.float32)])  # type: ignore[untyped-decorator]
        def serve(self, x: Any) -> Any:
            return {"y": tf.matmul(x, self.weights)}

    layer = Layer()
    tf.saved_model.save(layer, str(folder), signatures={"serving_default": layer.serve})


def pack(archive: Path, model: Path, code: bytes | None) -> Path:
    """An archive of the model, with this inference.py where there is one."""
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(model, "small/1")
        if code is not None:
            member = tarfile.TarInfo("code/inference.py")
            member.size = len(code)
            tar.addfile(member, io.BytesIO(code))
    return archive


if __name__ == "__main__":
    import sys

    save_model(Path(sys.argv[1]))
