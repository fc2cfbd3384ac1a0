"""Which processes an endpoint consists of, as its supervisor notes it in the endpoint's folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

_FILE = "processes.json"


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Process numbers; None and () where a part is not running in this moment."""

    supervisor: int
    front: int | None = None
    gateway: int | None = None
    """Gunicorn's master."""
    model_servers_parent: int | None = None
    model_servers: tuple[int, ...] = ()

    @property
    def workers(self) -> tuple[int, ...]:
        """Gunicorn's workers, which come and go without the supervisor."""
        if self.gateway is None:
            return ()
        try:
            return tuple(child.pid for child in psutil.Process(self.gateway).children())
        except psutil.NoSuchProcess:
            return ()

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Of the endpoint in `folder`."""
        noted: dict[str, Any] = json.loads((folder / _FILE).read_text())
        return cls(**(noted | {"model_servers": tuple(noted["model_servers"])}))


def note(folder: Path, parts: Mapping[str, Any]) -> None:
    """Written beside and renamed: a reader sees the old or the new."""
    beside = folder / f"{_FILE}.new"
    beside.write_text(json.dumps(parts))
    beside.replace(folder / _FILE)
