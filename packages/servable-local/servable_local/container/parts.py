"""Which processes an endpoint consists of, as its supervisor notes it in the endpoint's folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

FILE = "processes.json"
RELOAD = "reload.json"
"""A request to reload, in the endpoint's folder; SIGUSR1 announces it to the supervisor."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Process numbers; None and () where a part is not running in this moment."""

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
        """Gunicorn's workers, which come and go without the supervisor."""
        if self.gunicorn is None:
            return ()
        try:
            return tuple(child.pid for child in psutil.Process(self.gunicorn).children())
        except psutil.NoSuchProcess:
            return ()

    def processes(self, part: str) -> tuple[int, ...]:
        """Process ids of a part that can have faults, see `servable_local.container.faults.Part`."""
        if part in ("worker", "model server"):
            return self.workers if part == "worker" else self.model_servers
        pid = {"nginx": self.nginx, "gunicorn": self.gunicorn}.get(part, self.launcher)
        return () if pid is None else (pid,)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Reads the parts of the endpoint in `folder`."""
        parts: dict[str, Any] = json.loads((folder / FILE).read_text())
        return cls(**(parts | {"model_servers": tuple(parts["model_servers"])}))
