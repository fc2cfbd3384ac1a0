"""The wheels, built once."""

from pathlib import Path

import pytest

from scripts.build_wheels import build
from tests.wheels.built import REPOSITORY


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that they are in."""
    folder = tmp_path_factory.mktemp("wheels")
    build(folder, REPOSITORY)
    return folder
