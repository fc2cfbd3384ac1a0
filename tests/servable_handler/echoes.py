"""Writes the SavedModels of models/, which answer what they were given: run once, kept in git.

    python -m tests.servable_handler.echoes

floats, whole and words: `x` of any shape, float32, int64 and string, comes back as `x`. What
a model server answers for them shows the tensor that it got.
"""

from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.servable_handler.endpoints import ECHOES

TYPES = {"floats": tf.float32, "whole": tf.int64, "words": tf.string}


def write(folder: Path) -> None:
    for name, dtype in TYPES.items():

        @tf.function(input_signature=[tf.TensorSpec(None, dtype, name="x")])  # type: ignore[untyped-decorator]
        def serve(x: Any) -> dict[str, Any]:
            return {"x": tf.identity(x)}

        module = tf.Module()
        module.serve = serve
        tf.saved_model.save(module, str(folder / name / "1"), {"serving_default": serve})


if __name__ == "__main__":
    write(ECHOES)
