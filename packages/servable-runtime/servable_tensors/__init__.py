"""Arrays and the bodies and messages that they travel in. Knows no HTTP."""

UNNAMED = ""
"""The name of an input that was given without one: the model's only input."""
UNNAMED_OUTPUT = "output"
"""The name of an output where the answer's form has none: .npy, and JSON of a single output."""
MOST_DIMENSIONS = 254  # TensorShape::MaxDimensions, tensorflow/core/framework/tensor_shape.h


class TensorError(Exception):
    """Bytes or arrays that cannot become each other: what came, what is allowed, what to do."""


class TensorTooLargeError(TensorError):
    """More than may be unpacked or allocated for one body."""
