"""A model and its code to pack in a moment, and the sentence of a refusal."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model_packaging.inputs import ArchiveInputs, Servable
from model_packaging.refusal import PackagingError


def refusal(call: Callable[..., object], *given: Any, **more: Any) -> str:
    """Return the sentence with which the call is refused."""
    with pytest.raises(PackagingError) as caught:
        call(*given, **more)
    return str(caught.value)


@pytest.fixture
def inputs(project: Path) -> ArchiveInputs:
    # Smaller than a real one: what is in it does not matter to the packer.
    shutil.rmtree(project / "model")
    (project / "model" / "1" / "variables").mkdir(parents=True)
    (project / "model" / "1" / "saved_model.pb").write_bytes(b"a graph")
    (project / "model" / "1" / "variables" / "variables.index").write_bytes(b"index")
    folder = project / "model"
    return ArchiveInputs(servables=(Servable(name="ranker", folder=folder),), code=project / "code")


@pytest.fixture
def version(inputs: ArchiveInputs) -> Path:
    """The folder of the model's only version."""
    return inputs.servables[0].folder / "1"
