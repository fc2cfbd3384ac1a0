"""kill -9 while 100 MB are packed: what has the final name is whole, and the next run succeeds."""

import hashlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from model_packaging.archive import Packed, pack
from model_packaging.inputs import ArchiveInputs, Servable

pytestmark = pytest.mark.long

SEED = 7
RANDOM = random.Random(SEED)
FRACTIONS = [round(RANDOM.random(), 3) for _ in range(15)]
# The rename follows the fsync, whose end the child tells: from before it to after it.
AFTER_FSYNC_SECONDS = [0.0, 0.0001, 0.0003, 0.001, 0.01]

CHILD = """
import os, sys
from pathlib import Path
from model_packaging.archive import pack
from model_packaging.inputs import ArchiveInputs
from model_packaging.inputs import Servable
fsync = os.fsync
def told(descriptor):
    fsync(descriptor)
    print("on the disk", flush=True)
os.fsync = told
inputs = ArchiveInputs(servables=(Servable(name="m", folder=Path(sys.argv[1])),))
print("starts", flush=True)
pack(inputs, Path(sys.argv[2]))
"""


@dataclass(frozen=True)
class Model:
    inputs: ArchiveInputs
    whole: Packed


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    folder = tmp_path_factory.mktemp("killed")
    version = folder / "model" / "1"
    version.mkdir(parents=True)
    (version / "saved_model.pb").write_bytes(b"a graph")
    with (version / "weights").open("wb") as file:
        for number in range(100):
            file.write(random.Random(number).randbytes(1_000_000))
    inputs = ArchiveInputs(servables=(Servable(name="m", folder=folder / "model"),))
    whole = pack(inputs, folder / "whole.tar.gz")
    whole.path.unlink()
    yield Model(inputs, whole)
    (version / "weights").unlink()


def killed(model: Model, target: Path, *, line: str, seconds: float) -> None:
    """Killed so long after the child said `line`."""
    command = [sys.executable, "-c", CHILD, str(model.inputs.servables[0].folder), str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        try:
            while child.stdout.readline().strip() != line:
                assert child.poll() is None
            time.sleep(seconds)
        finally:
            child.kill()


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check(model: Model, target: Path) -> None:
    if target.exists():
        assert sha256(target) == model.whole.sha256
    assert pack(model.inputs, target).sha256 == model.whole.sha256
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    target.unlink()


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_killed_while_packing_nothing_half_has_the_name(
    model: Model, tmp_path: Path, fraction: float
) -> None:
    target = tmp_path / "out" / "model.tar.gz"
    killed(model, target, line="starts", seconds=fraction * model.whole.seconds)
    check(model, target)


@pytest.mark.parametrize("seconds", AFTER_FSYNC_SECONDS)
def test_killed_around_the_rename_nothing_half_has_the_name(
    model: Model, tmp_path: Path, seconds: float
) -> None:
    target = tmp_path / "out" / "model.tar.gz"
    killed(model, target, line="on the disk", seconds=seconds)
    check(model, target)
