"""The environment files as they were at another git revision."""

import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from infra.parameters.loading import Loaded, load


class RevisionError(Exception):
    """A revision that cannot be read. `str()` is the whole sentence."""


def against(loaded: Iterable[Loaded], root: Path, folder: Path, revision: str) -> list[Loaded]:
    """The same environments, each with what its file was at `revision`.

    Reads git's objects, never the network and never the working folder. Raises RevisionError.
    """
    inside = _inside(root, folder)
    files = _git(root, "ls-tree", "--name-only", "-z", revision, "--", f"./{inside}/").split("\0")
    with tempfile.TemporaryDirectory(prefix="servable-revision-") as copy:
        for name in files:
            if name.endswith(".toml"):
                target = Path(copy, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(_git(root, "show", f"{revision}:./{name}"), encoding="utf-8")
        then = {one.name: one for one in load(Path(copy), Path(copy, inside))}
    return [
        replace(
            one,
            against=revision,
            before=then[one.name].draft if one.name in then else None,
        )
        for one in loaded
    ]


def _inside(root: Path, folder: Path) -> str:
    try:
        return folder.relative_to(root).as_posix()
    except ValueError:
        raise RevisionError(f"{folder}: is not in the project {root}") from None


def _git(root: Path, *arguments: str) -> str:
    try:
        ran = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
    except FileNotFoundError:
        raise RevisionError("git is not installed; --against reads its history") from None
    if ran.returncode:
        said = ran.stderr.strip().splitlines() or ["git failed"]
        raise RevisionError(said[0].removeprefix("fatal: "))
    return ran.stdout
