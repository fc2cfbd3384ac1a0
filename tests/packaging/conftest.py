"""A model and its code to pack in a moment; SavedModels that TensorFlow has just written, to break."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from model_packaging.inputs import ArchiveInputs, Servable

Breakable = Callable[[str], Path]


@pytest.fixture
def inputs(project: Path) -> ArchiveInputs:
    # Smaller than a real one: what is in it does not matter to the packer.
    shutil.rmtree(project / "model")
    (project / "model" / "1" / "variables").mkdir(parents=True)
    (project / "model" / "1" / "saved_model.pb").write_bytes(b"a graph")
    (project / "model" / "1" / "variables" / "variables.index").write_bytes(b"index")
    return ArchiveInputs(
        servables=(Servable(name="ranker", folder=project / "model"),), code=project / "code"
    )


@pytest.fixture
def version(inputs: ArchiveInputs) -> Path:
    """The folder of the model's only version."""
    return inputs.servables[0].folder / "1"


@pytest.fixture(scope="session")
def saved_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models of saved_models.py. In a process of its own: Keras keeps state.

    pytest's workers share it: the first one writes, the others wait for it.
    """
    run = tmp_path_factory.getbasetemp()
    run = run.parent if "PYTEST_XDIST_WORKER" in os.environ else run
    folder = run / "saved_models"
    with (run / "saved_models.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "said.json").is_file():
            script = Path(__file__).with_name("saved_models.py")
            command = [sys.executable, str(script), str(folder)]
            subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture
def breakable(saved_models: Path, tmp_path: Path) -> Breakable:
    """`breakable("keras")` copies that model's version folder, each time to a new place."""

    def copied(name: str) -> Path:
        place = Path(tempfile.mkdtemp(dir=tmp_path)) / name / "1"
        return Path(shutil.copytree(saved_models / name / "1", place))

    return copied
