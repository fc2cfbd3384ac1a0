"""What a wheel's pyproject.toml says, and where the wheel lies."""

import tomllib
from pathlib import Path
from typing import Any

from scripts.build_wheels import ROOT, WHEELS
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
