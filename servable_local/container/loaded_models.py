"""Multi-model mode: which models are loaded, in a file that the supervisor writes."""

import json
from dataclasses import dataclass
from pathlib import Path

_FILE = "models.json"


@dataclass(frozen=True)
class LoadedModel:
    """`ports`: (gRPC, REST) of each of its model servers."""

    name: str
    folder: Path
    ports: tuple[tuple[int, int], ...]


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
                name: LoadedModel(name, Path(one["folder"]), tuple(map(tuple, one["ports"])))
                for name, one in json.loads(self._file.read_text()).items()
            }
        return self._models

    def write(self, models: dict[str, LoadedModel]) -> None:
        beside = self._file.with_suffix(".new")
        beside.write_text(
            json.dumps(
                {
                    name: {"folder": str(one.folder), "ports": one.ports}
                    for name, one in models.items()
                }
            )
        )
        beside.replace(self._file)
