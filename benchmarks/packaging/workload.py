"""What is packed: weights made on the spot, the same on every machine."""

import os
from pathlib import Path

import numpy as np

from model_packaging.inputs import ArchiveInputs
from model_packaging.servable import Servable

SEED = 20_261_120
WEIGHTS_BYTES = 400_000_000
# As far from zero as trained weights lie; what counts is that their low bits are noise.
WEIGHTS_DEVIATION = 0.05
LARGE_COPIES = 5
SPARSE_FILES = 2_000
SPARSE_FILE_BYTES = 5_000_000

_PIECE = 1_000_000


def weights(folder: Path) -> ArchiveInputs:
    """A model of 400 MB of float32 in one variable shard."""
    inputs = _model(folder)
    random = np.random.default_rng(SEED)
    with (folder / "model" / "1" / "variables" / "variables.data").open("wb") as file:
        for _ in range(WEIGHTS_BYTES // (4 * _PIECE)):
            piece = random.standard_normal(_PIECE, dtype=np.float32)
            file.write((piece * np.float32(WEIGHTS_DEVIATION)).tobytes())
    return inputs


def large(folder: Path, small: ArchiveInputs) -> ArchiveInputs:
    """A model of 2 GB: the same shard five times, as links that cost no disk."""
    inputs = _model(folder)
    shard = small.servables[0].folder / "1" / "variables" / "variables.data"
    for number in range(LARGE_COPIES):
        os.link(shard, folder / "model" / "1" / "variables" / f"variables.data-{number}")
    return inputs


def sparse(folder: Path) -> ArchiveInputs:
    """A model of 10 GB in 2,000 files that hold nothing and take no room."""
    inputs = _model(folder)
    for number in range(SPARSE_FILES):
        with (folder / "model" / "1" / "variables" / f"shard-{number:04}").open("wb") as file:
            file.truncate(SPARSE_FILE_BYTES)
    return inputs


def _model(folder: Path) -> ArchiveInputs:
    (folder / "model" / "1" / "variables").mkdir(parents=True)
    (folder / "model" / "1" / "saved_model.pb").write_bytes(b"a graph")
    return ArchiveInputs(servables=(Servable(name="weights", folder=folder / "model"),))
