"""Conversion between arrays and the bodies and messages that carry them. It contains no HTTP."""

UNNAMED = ""
"""The name of an input that was given without one: the model's only input."""
UNNAMED_OUTPUT = "output"
"""The name of an output if the response's format has none: .npy, and JSON of a single output."""
MOST_DIMENSIONS = 254  # TensorShape::MaxDimensions, tensorflow/core/framework/tensor_shape.h


class TensorError(Exception):
    """The error of bytes or arrays that cannot be converted: what came, what is allowed, what to do."""


class TensorTooLargeError(TensorError):
    """The error of a body that needs more memory than may be unpacked or allocated for it."""
