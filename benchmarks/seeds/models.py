"""Keras models of a chosen size, for both sides: NAME.keras for Flask, NAME/ for the endpoint.

    python -m benchmarks.seeds.models FOLDER NAME…

In a process of its own: who measures stays without TensorFlow.
"""

import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from benchmarks.workload import COLUMNS

# Hidden widths: about 2, 200 and 400 MB of weights.
WIDTHS = {"small": 512, "large": 6_950, "largest": 9_870}
SEED = 20
SAID_CHARACTERS = 2_000
"""Characters of a failure's output that are shown, from its end."""


@dataclass(frozen=True)
class KerasModel:
    keras: Path
    saved_model: Path

    @property
    def weights_mb(self) -> float:
        return self.keras.stat().st_size / 1e6


def made(folder: Path, names: Collection[str]) -> dict[str, KerasModel]:
    """The smallest first."""
    chosen = [name for name in WIDTHS if name in names]
    command = [sys.executable, "-m", "benchmarks.seeds.models", str(folder), *chosen]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"no models: {ran.stderr[-SAID_CHARACTERS:]}")
    return {name: KerasModel(folder / f"{name}.keras", folder / name) for name in chosen}


def _save(folder: Path, names: Collection[str]) -> None:
    import keras

    for name in names:
        width = WIDTHS[name]
        keras.utils.set_random_seed(SEED)
        layers = [
            keras.Input((COLUMNS,), name="x"),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dense(1, name="y"),
        ]
        model = keras.Sequential(layers)
        model.save(folder / f"{name}.keras")
        model.export(folder / name, verbose=False)


if __name__ == "__main__":
    _save(Path(sys.argv[1]), sys.argv[2:])
