"""What one model server is told to be, as it travels from the supervisor to its process."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Collected requests, every number decided."""

    max_batch_size: int
    timeout_micros: int
    batch_threads: int
    max_enqueued_batches: int


@dataclass(frozen=True, kw_only=True)
class ServerPlan:
    """One model server process. Threads of 0 leave a pool at the number of vCPUs."""

    models: dict[str, dict[int, Path]]
    """Name -> version -> folder of its SavedModel."""
    grpc_port: int
    rest_port: int
    inter_op_threads: int
    intra_op_threads: int
    batching: Batching | None
    trouble: Path
    """The file of trouble on request, see trouble.py."""

    def as_json(self) -> dict[str, Any]:
        models = {
            name: {str(version): str(folder) for version, folder in versions.items()}
            for name, versions in self.models.items()
        }
        return asdict(self) | {"models": models, "trouble": str(self.trouble)}

    @classmethod
    def of_json(cls, given: dict[str, Any]) -> Self:
        models = {
            name: {int(version): Path(folder) for version, folder in versions.items()}
            for name, versions in given["models"].items()
        }
        batching = Batching(**given["batching"]) if given["batching"] else None
        changed = {"models": models, "batching": batching, "trouble": Path(given["trouble"])}
        return cls(**(given | changed))
