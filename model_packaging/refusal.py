"""The error for an input that can't be packed, and the command that installs a missing extra."""

import sys
from pathlib import Path


class PackagingError(Exception):
    """An input that can't be packed. `str()` is the whole sentence: path, problem, and remedy."""

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}; {remedy}")
        self.path = path
        self.problem = problem
        self.remedy = remedy


HOME = Path(__file__).resolve().parents[1]
_TOOLS = {"uv-receipt.toml": "uv tool install", "pipx_metadata.json": "pipx install --force"}
"""File in an environment that a tool made -> the tool's command; pip would install elsewhere."""


def build_install_command(extra: str) -> str:
    """Return the command that installs an extra.

    This is `make install` in a clone, and otherwise pip's or a tool's command.
    """
    if (HOME / "Makefile").is_file() and (HOME / "pyproject.toml").is_file():
        return "make install" if Path.cwd() == HOME else f"make -C {HOME} install"
    tools = (how for file, how in _TOOLS.items() if Path(sys.prefix, file).exists())
    return f"{next(tools, 'pip install')} 'servable-endpoints[{extra}]'"
