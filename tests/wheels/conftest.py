"""The wheels, built once."""

from pathlib import Path

import pytest

from scripts.build_wheels import build


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that they are in."""
    folder = tmp_path_factory.mktemp("wheels")
    build(folder)
    return folder
