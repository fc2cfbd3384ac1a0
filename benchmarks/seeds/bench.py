"""What every experiment gets: a folder, the models, the way to start a server, and its clock."""

import io
import tarfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.seeds.models import Made
from benchmarks.seeds.server import Server, Start
from infra.policy.container import ContainerSettings, variables_of
from model_packaging.request_path import request_path

DEFAULTS = ContainerSettings()
HANDLER = b"from servable_handler.inference import handler\n"


@dataclass(frozen=True)
class Bench:
    folder: Path
    models: Mapping[str, Made]
    start: Start
    told: Callable[[str], None]

    def serve(
        self, model: str, settings: ContainerSettings = DEFAULTS
    ) -> AbstractContextManager[Server]:
        """A model with our handler before it."""
        variables = variables_of(settings, default_model=None)
        return self.start(self._archive(model), variables)

    def _archive(self, model: str) -> Path:
        archive = self.folder / f"{model}.tar.gz"
        if not archive.exists():
            # Stored, not compressed: random weights do not become smaller.
            with tarfile.open(archive, "w:gz", compresslevel=0) as tar:
                tar.add(self.models[model].saved_model, f"{model}/1")
                for entry in request_path(None).entries:
                    tar.add(entry.path, entry.name, recursive=False)
                member = tarfile.TarInfo("code/inference.py")
                member.size = len(HANDLER)
                tar.addfile(member, io.BytesIO(HANDLER))
        return archive

    def packed(self, name: str, prefix: str, models: tuple[str, ...]) -> Path:
        """Several models, without code, in folders of their own below `prefix`."""
        archive = self.folder / f"{name}.tar.gz"
        with tarfile.open(archive, "w:gz", compresslevel=0) as tar:
            for model in models:
                tar.add(self.models[model].saved_model, f"{prefix}{model}/1")
        return archive
