"""Bench of an experiment: a folder, models, the way to start an endpoint, and a log.

    python -m benchmarks.seeds.bench FOLDER NAME…

writes Keras models: NAME.keras for Flask, NAME/ for the endpoint. In a process of its own: who measures stays
without TensorFlow.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import workload
from benchmarks.callers import load
from benchmarks.frame import Log
from benchmarks.seeds.flask_server import FlaskServer, flask_server
from infra.policy.container import ContainerSettings, variables_of
from servable_local.container.launch import EndpointProcess, launch

# Hidden widths: about 2, 200 and 400 MB of weights.
WIDTHS = {"small": 512, "large": 6_950, "largest": 9_870}
SEED = 20
CALLERS = 8


@dataclass(frozen=True)
class Bench:
    folder: Path
    log: Log

    def flask(
        self, model: str, how: str = "call", workers: int = 1
    ) -> AbstractContextManager[FlaskServer]:
        """A model inside Flask's web workers."""
        variables = {"HOW": how, "MODEL": str(self.folder / f"{model}.keras")}
        return flask_server(variables, workers=workers)

    def serve(
        self, model: str, settings: ContainerSettings | None = None
    ) -> AbstractContextManager[EndpointProcess]:
        """A model with our handler before it."""
        archive = self.folder / f"{model}.tar.gz"
        if not archive.exists():
            models = {model: self.folder / model}
            workload.pack(archive, models, {}, handler=True, compressed=False)
        return self.start(
            archive, variables_of(settings or ContainerSettings(), default_model=None)
        )

    def start(
        self, archive: Path, variables: Mapping[str, str]
    ) -> AbstractContextManager[EndpointProcess]:
        return launch(archive, variables, ready_timeout_seconds=120)

    def packed(self, name: str, prefix: str, models: Collection[str]) -> Path:
        """Several models, without code, in folders of their own below `prefix`."""
        folders = {f"{prefix}{model}": self.folder / model for model in models}
        return workload.pack(self.folder / f"{name}.tar.gz", folders, {}, compressed=False)


def rate(url: str, seconds: float, form: str = workload.JSON, rows: int = 1) -> float:
    """Requests per second of eight callers. Raises RuntimeError where one is refused."""
    body = workload.body(form, rows)
    run = load(url, body, callers=CALLERS, seconds=seconds, content_type=form)
    if run.failed:
        raise RuntimeError(f"{url}: {run.failed} requests failed")
    return run.requests_per_second


def latency_ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def make_models(folder: Path, names: Collection[str]) -> None:
    command = [sys.executable, "-m", "benchmarks.seeds.bench", str(folder), *names]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"no models: {ran.stderr[-2_000:]}")


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
