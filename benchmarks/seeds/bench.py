"""Bench of an experiment: a folder, models, the way to start an endpoint, and a log.

    python -m benchmarks.seeds.bench FOLDER NAME…

writes Keras models: NAME.keras for Flask, NAME/ for the endpoint. In a process of its own: who measures stays
without TensorFlow.
"""

import subprocess
import sys
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import workload
from benchmarks.frame import Log
from infra.policy.container import ContainerSettings, variables_of
from servable_local.container.launch import EndpointProcess, launch

# Hidden widths: about 2, 200 and 400 MB of weights.
WIDTHS = {"small": 512, "large": 6_950, "largest": 9_870}
SEED = 20
READY_SECONDS = 120.0
SHOWN_CHARACTERS = 2_000
"""Characters of a failure's output that are shown, from its end."""
DEFAULTS = ContainerSettings()


@dataclass(frozen=True)
class Bench:
    folder: Path
    log: Log

    def keras(self, model: str) -> Path:
        return self.folder / f"{model}.keras"

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
            models = {model: self.folder / model}
            workload.pack(archive, models, {}, handler=True, compressed=False)
        return self.start(archive, variables_of(settings, default_model=None))

    def packed(self, name: str, prefix: str, models: tuple[str, ...]) -> Path:
        """Several models, without code, in folders of their own below `prefix`."""
        folders = {f"{prefix}{model}": self.folder / model for model in models}
        return workload.pack(self.folder / f"{name}.tar.gz", folders, {}, compressed=False)


def make_models(folder: Path, names: Collection[str]) -> None:
    command = [sys.executable, "-m", "benchmarks.seeds.bench", str(folder), *names]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"no models: {ran.stderr[-SHOWN_CHARACTERS:]}")


def _save(folder: Path, names: Collection[str]) -> None:
    import keras

    for name in names:
        keras.utils.set_random_seed(SEED)
        hidden = [keras.layers.Dense(WIDTHS[name], activation="relu") for _ in range(2)]
        rows = keras.Input((workload.COLUMNS,), name="x")
        model = keras.Sequential([rows, *hidden, keras.layers.Dense(1, name="y")])
        model.save(folder / f"{name}.keras")
        model.export(folder / name, verbose=False)


if __name__ == "__main__":
    _save(Path(sys.argv[1]), sys.argv[2:])
