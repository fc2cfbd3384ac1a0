"""What goes wrong between bytes and arrays."""


class TensorError(Exception):
    """Bytes or arrays that cannot become each other: what came, what is allowed, what to do."""


class TensorTooLargeError(TensorError):
    """More than may be unpacked or allocated for one body."""
