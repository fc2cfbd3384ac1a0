"""Writes a SavedModel whose convolution aborts TensorFlow: `python -m tests.servable_handler.conv2d FOLDER`.

Its input may be of any rank, and with oneDNN (the default) TensorFlow 2.21's process ends over any
other than 4, where it should refuse the request. The signature `images` says that it wants 4.
"""

import sys
from typing import Any

import tensorflow as tf


def write(folder: str) -> None:
    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, name="x")])  # type: ignore[untyped-decorator]
    def serve(x: Any) -> dict[str, Any]:
        return {"y": tf.nn.conv2d(x, tf.ones([3, 3, 1, 4]), 1, "SAME")}

    module = tf.Module()
    module.serve = serve
    images = serve.get_concrete_function()
    input_signature = [tf.TensorSpec([None, None, None, 1], tf.float32, name="x")]
    module.images = tf.function(lambda x: images(x=x), input_signature=input_signature)
    tf.saved_model.save(module, f"{folder}/1", {"serving_default": serve, "images": module.images})


if __name__ == "__main__":
    write(sys.argv[1])
