"""Trouble on request: a slow, failing or overloaded model, while the endpoint runs.

One small file of fixed fields, mapped by every model server: reading it costs nothing
worth measuring, and whoever knows the endpoint's folder can write it.
"""

import mmap
import struct
import time
from pathlib import Path
from typing import Self

from servable_local.container.answer import HttpError

NAME = "trouble"
_FIELDS = struct.Struct("<diii")  # latency_seconds, status, queue_full, slow_server
_EVERY = 0  # servers are counted from 1 in the file, so that a new one says: all of them
# The sentence of TensorFlow Serving's batch scheduler.
# Source: tensorflow/core/kernels/batching_util/shared_batch_scheduler.h
QUEUE_FULL = (
    "The batch scheduling queue to which this task was submitted is full; currently 0 entries"
)


class Trouble:
    """What is wrong with the model servers of one endpoint."""

    def __init__(self, file: Path, number: int = 0) -> None:
        """`number`: which of the model servers reads it, from 0."""
        self._number = number
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), _FIELDS.size)

    @classmethod
    def make(cls, file: Path) -> Self:
        file.write_bytes(bytes(_FIELDS.size))
        return cls(file)

    @property
    def latency_seconds(self) -> float:
        return float(self._read()[0])

    @latency_seconds.setter
    def latency_seconds(self, seconds: float) -> None:
        _, status, full, server = self._read()
        _FIELDS.pack_into(self._map, 0, seconds, status, full, server)

    @property
    def slow_server(self) -> int | None:
        """The only one that takes so much longer, from 0; None for all of them."""
        server = self._read()[3]
        return None if server == _EVERY else server - 1

    @slow_server.setter
    def slow_server(self, number: int | None) -> None:
        latency, status, full, _ = self._read()
        _FIELDS.pack_into(
            self._map, 0, latency, status, full, _EVERY if number is None else number + 1
        )

    @property
    def status(self) -> int:
        """The HTTP status that every prediction is answered; 0 for none."""
        return self._read()[1]

    @status.setter
    def status(self, status: int) -> None:
        latency, _, full, server = self._read()
        _FIELDS.pack_into(self._map, 0, latency, status, full, server)

    @property
    def queue_full(self) -> bool:
        return bool(self._read()[2])

    @queue_full.setter
    def queue_full(self, full: bool) -> None:
        latency, status, _, server = self._read()
        _FIELDS.pack_into(self._map, 0, latency, status, int(full), server)

    def strike(self) -> None:
        """In a model server, before it computes. Raises `HttpError` where one is asked for."""
        latency_seconds, status, queue_full, server = self._read()
        if latency_seconds and server in (_EVERY, self._number + 1):
            time.sleep(latency_seconds)
        if queue_full:
            raise HttpError(503, QUEUE_FULL)
        if status:
            raise HttpError(status, "trouble on request: the model server was told to fail")

    def _read(self) -> tuple[float, int, int, int]:
        return _FIELDS.unpack_from(self._map)
