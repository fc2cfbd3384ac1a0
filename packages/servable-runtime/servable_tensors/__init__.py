"""Conversion between arrays and the bodies and messages that carry them. It contains no HTTP."""

from collections.abc import Iterable, Sequence

UNNAMED = ""
"""The name of an input that was given without one: the model's only input."""
UNNAMED_OUTPUT = "output"
"""The name of an output if the response's format has none: .npy, and JSON of a single output."""
MOST_DIMENSIONS = 254  # TensorShape::MaxDimensions, tensorflow/core/framework/tensor_shape.h


class TensorError(Exception):
    """The error of bytes or arrays that cannot be converted: what came, what is allowed, what to do."""


class TensorTooLargeError(TensorError):
    """The error of a body that needs more memory than may be unpacked or allocated for it."""


def is_shape_allowed(shape: Sequence[int], sizes: Sequence[int | None] | None) -> bool:
    """Return whether a shape matches a declared one, in which None is any size; None alone: any shape."""
    if sizes is None:
        return True
    pairs = zip(shape, sizes, strict=False)
    return len(shape) == len(sizes) and all(size in (None, given) for given, size in pairs)


def format_shape(shape: Iterable[int | None] | None) -> str:
    """Format a shape for a message, such as [any, 39]."""
    if shape is None:
        return "of any shape"
    return f"[{', '.join('any' if size is None else str(size) for size in shape)}]"


def is_exact_as_float(value: int) -> bool:
    """Return whether float64 holds an integer exactly."""
    try:
        return int(float(value)) == int(value)
    except OverflowError:
        return False
