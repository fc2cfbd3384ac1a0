"""Fault injection for a running endpoint: for tests, and to observe each fault.

with launch(archive, {}) as process:
    process.faults.slow(latency_ms=200)
    process.faults.kill("model server")

Faults of predictions are in one small file of fixed fields, mapped by every model server: reading
it costs almost nothing, and any program that knows the endpoint's folder can write it. Faults of
processes are signals; the supervisor records the processes in the same folder.
"""

import contextlib
import json
import mmap
import os
import signal
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

import psutil

from servable_local.container.http_messages import HttpError

PARTS_FILE = "processes.json"
RELOAD = "reload.json"
"""A request to reload, in the endpoint's folder; SIGUSR1 announces it to the supervisor."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The process IDs of an endpoint; None and () for a part that isn't running."""

    supervisor: int
    nginx: int | None = None
    """The stand-in for it."""
    gunicorn: int | None = None
    """Gunicorn's master."""
    launcher: int | None = None
    """Imports TensorFlow and forks the model servers."""
    model_servers: tuple[int, ...] = ()

    @property
    def workers(self) -> tuple[int, ...]:
        """Return Gunicorn's workers, which start and end without the supervisor."""
        if self.gunicorn is None:
            return ()
        try:
            return tuple(child.pid for child in psutil.Process(self.gunicorn).children())
        except psutil.NoSuchProcess:
            return ()

    def list_processes(self, part: str) -> tuple[int, ...]:
        """Return the process IDs of a part, see `servable_local.container.faults.Part`."""
        if part in ("worker", "model server"):
            return self.workers if part == "worker" else self.model_servers
        pid = {"nginx": self.nginx, "gunicorn": self.gunicorn}.get(part, self.launcher)
        return () if pid is None else (pid,)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the parts of the endpoint in `folder`."""
        parts: dict[str, Any] = json.loads((folder / PARTS_FILE).read_text())
        return cls(**(parts | {"model_servers": tuple(parts["model_servers"])}))


FILE = "faults"
_FIELDS = struct.Struct("<dii")

Part = Literal["model server", "model-server launcher", "worker", "gunicorn", "nginx"]


class PredictionFaults(NamedTuple):
    """The injected faults of one endpoint's predictions, in the file's format."""

    latency_seconds: float = 0.0
    status: int = 0
    """The HTTP status of the response to every prediction; 0 for none."""
    queue_full: int = 0


class FaultFile:
    """The faults of one endpoint's model servers. Call `create` before you open the file."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), _FIELDS.size)

    @staticmethod
    def create(file: Path) -> None:
        file.write_bytes(bytes(_FIELDS.size))

    def read(self) -> PredictionFaults:
        return PredictionFaults(*_FIELDS.unpack_from(self._map))

    def write(self, faults: PredictionFaults) -> None:
        _FIELDS.pack_into(self._map, 0, *faults)

    def apply_faults(self) -> None:
        """Apply the faults, before a model server computes. Raises `HttpError`."""
        faults = self.read()
        if faults.latency_seconds:
            time.sleep(faults.latency_seconds)
        if faults.queue_full:
            # Source: tensorflow/core/kernels/batching_util/shared_batch_scheduler.h
            full = "to which this task was submitted is full; currently 0 entries"
            raise HttpError(f"The batch scheduling queue {full}", 503)
        if faults.status:
            raise HttpError("injected fault: the model server is set to fail", faults.status)


class FaultInjector:
    """An injector of faults, by files in the endpoint's `folder`, for any process of the user."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = FaultFile(folder / FILE)

    def slow(self, latency_ms: float) -> None:
        """Delay every prediction; a latency of 0 ends it."""
        self._change(latency_seconds=latency_ms / 1000)

    def fail(self, status: int) -> None:
        """Fail every prediction with this HTTP status; 0 ends it."""
        self._change(status=status)

    def fill_queue(self, full: bool = True) -> None:
        """Reject every prediction as a full batching queue does: 503, UNAVAILABLE."""
        self._change(queue_full=int(full))

    def freeze(self, part: Part = "model server") -> None:
        """Stop all processes of that part, which keep their ports."""
        self._send_signal(part, signal.SIGSTOP)

    def thaw(self, part: Part = "model server") -> None:
        """Continue frozen processes."""
        self._send_signal(part, signal.SIGCONT)

    def kill(self, part: Part = "model server") -> None:
        """Kill all processes of that part at once (-9)."""
        self._send_signal(part, signal.SIGKILL)

    def end(self) -> None:
        """End all faults. Killed processes have already been restarted automatically."""
        self._file.write(PredictionFaults())
        for part in get_args(Part):
            self.thaw(part)

    def _change(self, **fields: Any) -> None:
        self._file.write(self._file.read()._replace(**fields))

    def _send_signal(self, part: Part, number: signal.Signals) -> None:
        for pid in Parts.read(self._folder).list_processes(part):
            # It may be on its way to a new start.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
