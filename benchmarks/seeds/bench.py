"""What every experiment gets: a folder, the models, the way to start an endpoint, and its clock."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import workload
from benchmarks.command import Told
from benchmarks.seeds.models import KerasModel
from infra.policy.container import ContainerSettings, variables_of
from servable_local.container.launch import EndpointProcess, launch

DEFAULTS = ContainerSettings()
READY_SECONDS = 120.0


@dataclass(frozen=True)
class Bench:
    folder: Path
    models: Mapping[str, KerasModel]
    told: Told

    def start(
        self, archive: Path, variables: Mapping[str, str]
    ) -> AbstractContextManager[EndpointProcess]:
        return launch(archive, variables, ready_timeout_seconds=READY_SECONDS)

    def serve(
        self, model: str, settings: ContainerSettings = DEFAULTS
    ) -> AbstractContextManager[EndpointProcess]:
        """A model with our handler before it."""
        archive = self.folder / f"{model}.tar.gz"
        if not archive.exists():
            models = {model: self.models[model].saved_model}
            workload.pack(archive, models, {}, handler=True, compressed=False)
        return self.start(archive, variables_of(settings, default_model=None))

    def packed(self, name: str, prefix: str, models: tuple[str, ...]) -> Path:
        """Several models, without code, in folders of their own below `prefix`."""
        folders = {f"{prefix}{model}": self.models[model].saved_model for model in models}
        return workload.pack(self.folder / f"{name}.tar.gz", folders, {}, compressed=False)
