"""TensorFlow's import without the lines that it always writes and that tell a reader nothing."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Written below Python's logging, whatever TF_CPP_MIN_LOG_LEVEL says (TensorFlow 2.21, 2026-11-22).
USUAL = (b"All log messages before absl::InitializeLog()", b"oneDNN custom operations are on.")


@contextmanager
def without_usual_notes() -> Iterator[None]:
    """Leaves the lines of `USUAL` out of what this process writes to stderr inside the block.

    A process, and not a thread, passes the other lines on: model servers are forked afterwards, and
    what TensorFlow writes before it aborts is shown too.
    """
    read, write = os.pipe()
    relay = os.fork()
    if relay == 0:
        os.close(write)
        with os.fdopen(read, "rb") as lines:
            for line in lines:
                if not any(note in line for note in USUAL):
                    os.write(sys.stderr.fileno(), line)
        os._exit(0)
    os.close(read)
    stderr = os.dup(sys.stderr.fileno())
    os.dup2(write, sys.stderr.fileno())
    os.close(write)
    try:
        yield
    finally:
        os.dup2(stderr, sys.stderr.fileno())
        os.close(stderr)
        os.waitpid(relay, 0)
