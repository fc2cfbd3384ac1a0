"""Trouble on request for a running endpoint: for tests, and for seeing what each looks like.

with launch(archive, {}) as process:
    process.trouble.slow(latency_ms=200)
    process.trouble.kill("model server")
"""

import os
import signal
from pathlib import Path
from typing import Literal, get_args

from servable_local.container.parts import Parts
from servable_local.container.trouble import NAME, Trouble

Part = Literal["model server", "model servers' parent", "worker", "gateway", "front"]


class Troublemaker:
    """Of the endpoint whose files are in `folder`; from any process of the same user."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._trouble = Trouble(folder / NAME)

    def slow(self, latency_ms: float, *, server: int | None = None) -> None:
        """Every prediction takes so much longer, or those of one server from 0 on; 0 ends it."""
        self._trouble.slow_server = server
        self._trouble.latency_seconds = latency_ms / 1000

    def fail(self, status: int) -> None:
        """Every prediction is answered this HTTP status; 0 ends it."""
        self._trouble.status = status

    def fill_queue(self, full: bool = True) -> None:
        """Every prediction is refused as by a full batching queue: 503, UNAVAILABLE."""
        self._trouble.queue_full = full

    def freeze(self, part: Part = "model server") -> None:
        """All processes of that part stop where they are, and keep their ports."""
        self._signal(part, signal.SIGSTOP)

    def thaw(self, part: Part = "model server") -> None:
        """Frozen processes go on."""
        self._signal(part, signal.SIGCONT)

    def kill(self, part: Part = "model server") -> None:
        """All processes of that part are gone at once (-9)."""
        self._signal(part, signal.SIGKILL)

    def end(self) -> None:
        """No trouble any more; what was killed has been started again by itself."""
        self.slow(0)
        self.fail(0)
        self.fill_queue(False)
        for part in get_args(Part):
            self.thaw(part)

    def _signal(self, part: Part, number: signal.Signals) -> None:
        for pid in self._processes(part):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass  # it is being started again in this moment

    def _processes(self, part: Part) -> tuple[int, ...]:
        parts = Parts.read(self._folder)
        one = {
            "model servers' parent": parts.model_servers_parent,
            "gateway": parts.gateway,
            "front": parts.front,
        }
        if part in one:
            pid = one[part]
            return () if pid is None else (pid,)
        return parts.workers if part == "worker" else parts.model_servers
