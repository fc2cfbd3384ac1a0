"""The wheels, built once: where each lies, and what its pyproject.toml says."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from scripts.build_wheels import ROOT, WHEELS, build
from servable import __version__

REPOSITORY = "https://github.com/OWNER/NAME"


def metadata(wheel: str) -> dict[str, Any]:
    """The table [project] of the wheel's pyproject.toml."""
    file = ROOT / WHEELS[wheel] / "pyproject.toml"
    found: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    return found


def file_of(wheel: str, out: Path) -> Path:
    """Where a wheel of this version lies in `out`."""
    return out / f"{wheel.replace('-', '_')}-{__version__}-py3-none-any.whl"


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that they are in."""
    folder = tmp_path_factory.mktemp("wheels")
    build(folder, REPOSITORY)
    return folder
