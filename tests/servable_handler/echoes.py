"""Writes the SavedModel of models/floats, which answers what it was given: run once, kept in git.

    python -m tests.servable_handler.echoes

`x`, float32 of any shape, comes back as `x`.
"""

import tensorflow as tf

from tests.servable_handler.endpoints import ECHOES

if __name__ == "__main__":
    module = tf.Module()
    module.serve = tf.function(
        lambda x: {"x": tf.identity(x)}, input_signature=[tf.TensorSpec(None, tf.float32, name="x")]
    )
    tf.saved_model.save(module, str(ECHOES / "floats" / "1"), {"serving_default": module.serve})
