"""Read the environment files as they were at a different git revision."""

import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from infra.parameters.loading import Loaded, build_deployed_variants, load
from model_packaging.beside import WHEELS
from servable.project.environments import read_kept


class RevisionError(click.UsageError):
    """The error if the revision given with --against can't be read."""

    def __init__(self, revision: str, problem: str) -> None:
        super().__init__(f"--against {revision}: {problem}")


def attach_revision(
    loaded: Iterable[Loaded], root: Path, folder: Path, revision: str
) -> list[Loaded]:
    """Return the environments, each with what its file described at `revision`. Raises RevisionError."""
    then = load_revision(root, folder, revision)
    drafts = {name: old.draft for name, old in then.items()}
    return [
        replace(
            current,
            against=revision,
            before=before,
            deployed=build_deployed_variants(before) if before else {},
        )
        for current, before in ((current, drafts.get(current.name)) for current in loaded)
    ]


def load_revision(root: Path, folder: Path, revision: str) -> dict[str, Loaded]:
    """Return the environments as they were at `revision`, by name.

    The files that they point to are not extracted. Reads git's objects, neither the network nor
    the working folder. Raises RevisionError.
    """
    inside = _find_relative_folder(root, folder, revision)
    files = _run_git(
        root, revision, "ls-tree", "--name-only", "-z", revision, "--", f"./{inside}/", "./cdk.json"
    ).split("\0")
    with tempfile.TemporaryDirectory(prefix="servable-revision-") as copy:
        for name in files:
            if name.endswith((".toml", "cdk.json")):
                target = Path(copy, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(
                    _run_git(root, revision, "show", f"{revision}:./{name}"), encoding="utf-8"
                )
        return {loaded.name: loaded for loaded in _load(Path(copy), inside)}


def last_change_of(root: Path, folder: Path, keys: Iterable[str]) -> list[str]:
    """Return the revision before the last commit that changed one of these keys in the folder's files.

    The list is empty if no commit did. Raises RevisionError.
    """
    lines = rf"^[[:space:]]*({'|'.join(keys)})[[:space:]]*="
    inside = f"./{_find_relative_folder(root, folder, 'HEAD')}"
    commit = _run_git(root, "HEAD", "log", "-1", "--format=%H", "-G", lines, "--", inside).strip()
    return [f"{commit}^"] if commit else []


@contextmanager
def check_out_revision(root: Path, folder: Path, revision: str) -> Iterator[dict[str, Loaded]]:
    """Yield the environments as they were at `revision`, by name, with all files of the project.

    The files are in a temporary folder that exists within the `with` block. The wheels are those
    of this computer. Raises RevisionError.
    """
    inside = _find_relative_folder(root, folder, revision)
    with tempfile.TemporaryDirectory(prefix="servable-revision-") as copy:
        packed = Path(copy, "packed.tar")
        _run_git(root, revision, "archive", "--format=tar", f"--output={packed}", revision, ".")
        project = Path(copy, "project")
        with tarfile.open(packed) as tar:
            tar.extractall(project, filter="data")
        wheels = project / WHEELS
        if (root / WHEELS).is_dir():
            wheels.parent.mkdir(parents=True, exist_ok=True)
            wheels.symlink_to(root / WHEELS)
        yield {loaded.name: loaded for loaded in _load(project, inside)}


def _load(root: Path, inside: str) -> list[Loaded]:
    return load(root, root / inside, kept=read_kept(root))


def _find_relative_folder(root: Path, folder: Path, revision: str) -> str:
    try:
        return folder.relative_to(root).as_posix()
    except ValueError:
        raise RevisionError(revision, f"{folder}: not in the project {root}") from None


def _run_git(root: Path, revision: str, *arguments: str) -> str:
    try:
        ran = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
    except FileNotFoundError:
        raise RevisionError(revision, "git is not installed; --against reads its history") from None
    if ran.returncode:
        lines = ran.stderr.strip().splitlines() or ["git failed"]
        said = lines[0].removeprefix("fatal: ")
        raise RevisionError(revision, f"{said}; give a commit, branch or tag that git log shows")
    return ran.stdout
