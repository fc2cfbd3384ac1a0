"""Multi-model mode, as Gunicorn's workers see it: which models are loaded, and asking for more.

The supervisor writes a file that every worker reads, and answers questions on a socket; both
lie in the endpoint's folder."""

import json
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from servable_local.private_files import write_beside

_FILE = "models.json"


@dataclass(frozen=True)
class LoadedModel:
    """`ports`: (gRPC, REST) of each of its model servers. `ended`: the first of them has ended."""

    name: str
    folder: Path
    ports: Sequence[tuple[int, int]]
    ended: bool = False


class LoadedModels:
    """Read by every worker, again only when it has changed."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / _FILE
        self._seen = -1
        self._models: dict[str, LoadedModel] = {}

    def all(self) -> dict[str, LoadedModel]:
        """By name."""
        try:
            now = self._file.stat().st_mtime_ns
        except FileNotFoundError:
            return {}
        if now != self._seen:
            self._seen = now
            self._models = {
                name: LoadedModel(**(model | {"folder": Path(model["folder"])}))
                for name, model in json.loads(self._file.read_text()).items()
            }
        return self._models

    def write(self, models: dict[str, LoadedModel]) -> None:
        entries = {name: asdict(model) for name, model in models.items()}
        write_beside(self._file, json.dumps(entries, default=str))


SOCKET = "control.sock"


def ask(folder: Path, **question: Any) -> dict[str, Any]:
    """One question, one answer, both JSON. Raises `OSError` when nobody is there."""
    with socket.socket(socket.AF_UNIX) as connection:
        if sys.platform == "linux":
            # By a descriptor of the folder: a path of more than 107 letters is no address.
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                connection.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
            finally:
                os.close(descriptor)
        else:  # of at most 103 letters on macOS
            connection.connect(str(folder / SOCKET))
        connection.sendall(json.dumps(question).encode() + b"\n")
        with connection.makefile("rb") as lines:
            answer: dict[str, Any] = json.loads(lines.readline())
    return answer
