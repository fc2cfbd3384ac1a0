"""Trouble on request: a slow, failing or overloaded model, while the endpoint runs.

One small file of fixed fields, mapped by every model server: reading it costs nothing
worth measuring, and whoever knows the endpoint's folder can write it.
"""

import mmap
import struct
import time
from pathlib import Path
from typing import Self

from local.endpoint.answer import Refusal

NAME = "trouble"
_FIELDS = struct.Struct("<dii")  # latency_seconds, status, queue_full
# The sentence of TensorFlow Serving's batch scheduler.
# Source: tensorflow/core/kernels/batching_util/shared_batch_scheduler.h
QUEUE_FULL = (
    "The batch scheduling queue to which this task was submitted is full; currently 0 entries"
)


class Trouble:
    """What is wrong with the model servers of one endpoint."""

    def __init__(self, file: Path) -> None:
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
        _, status, full = self._read()
        _FIELDS.pack_into(self._map, 0, seconds, status, full)

    @property
    def status(self) -> int:
        """The HTTP status that every prediction is answered; 0 for none."""
        return self._read()[1]

    @status.setter
    def status(self, status: int) -> None:
        latency, _, full = self._read()
        _FIELDS.pack_into(self._map, 0, latency, status, full)

    @property
    def queue_full(self) -> bool:
        return bool(self._read()[2])

    @queue_full.setter
    def queue_full(self, full: bool) -> None:
        latency, status, _ = self._read()
        _FIELDS.pack_into(self._map, 0, latency, status, int(full))

    def strike(self) -> None:
        """In a model server, before it computes. Raises `Refusal` where one is asked for."""
        latency_seconds, status, queue_full = self._read()
        if latency_seconds:
            time.sleep(latency_seconds)
        if queue_full:
            raise Refusal(503, QUEUE_FULL)
        if status:
            raise Refusal(status, "trouble on request: the model server was told to fail")

    def _read(self) -> tuple[float, int, int]:
        return _FIELDS.unpack_from(self._map)
