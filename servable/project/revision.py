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
from servable.project.environments import Project, read_kept_overrides


class RevisionError(click.UsageError):
    """The error if the revision given with --against can't be read."""

    def __init__(self, revision: str, problem: str) -> None:
        super().__init__(f"--against {revision}: {problem}")


def attach_revision(loaded: Iterable[Loaded], project: Project, revision: str) -> list[Loaded]:
    """Return the environments, each with what its file described at `revision`. Raises RevisionError."""
    then = load_revision(project, revision)
    drafts = {name: old.draft for name, old in then.items()}
    attached = []
    for current in loaded:
        before = drafts.get(current.name)
        deployed = build_deployed_variants(before) if before else {}
        attached.append(replace(current, against=revision, before=before, deployed=deployed))
    return attached


def load_revision(project: Project, revision: str) -> dict[str, Loaded]:
    """Return the environments at `revision`, without their other files. Raises RevisionError."""
    root, inside = project.root, _find_relative_folder(project, revision)
    listed = ("ls-tree", "--name-only", "-z", revision, "--", f"./{inside}/", "./cdk.json")
    with tempfile.TemporaryDirectory(prefix="servable-revision-") as copy:
        for name in _run_git(root, revision, *listed).split("\0"):
            if name.endswith((".toml", "cdk.json")):
                target = Path(copy, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                text = _run_git(root, revision, "show", f"{revision}:./{name}")
                target.write_text(text, encoding="utf-8")
        return _load_copy(Path(copy), inside)


def find_revision_before_change(project: Project, keys: Iterable[str]) -> list[str]:
    """Return the revision before these keys' last change, or []. Raises RevisionError."""
    lines = rf"^[[:space:]]*({'|'.join(keys)})[[:space:]]*="
    inside = f"./{_find_relative_folder(project, 'HEAD')}"
    logged = ("log", "-1", "--format=%H", "-G", lines, "--", inside)
    commit = _run_git(project.root, "HEAD", *logged).strip()
    return [f"{commit}^"] if commit else []


@contextmanager
def check_out_revision(project: Project, revision: str) -> Iterator[dict[str, Loaded]]:
    """Yield the environments as they were at `revision`, by name, with all files of the project.

    The files are in a temporary folder that exists within the `with` block. The wheels are those
    of this computer. Raises RevisionError.
    """
    root, inside = project.root, _find_relative_folder(project, revision)
    with tempfile.TemporaryDirectory(prefix="servable-revision-") as copy:
        packed = Path(copy, "packed.tar")
        _run_git(root, revision, "archive", "--format=tar", f"--output={packed}", revision, ".")
        unpacked = Path(copy, "project")
        with tarfile.open(packed) as tar:
            # Unlike "data", "tar" accepts links that lead out of the project, as a checkout does.
            tar.extractall(unpacked, filter="tar")
        wheels = unpacked / WHEELS
        if (root / WHEELS).is_dir():
            wheels.parent.mkdir(parents=True, exist_ok=True)
            wheels.symlink_to(root / WHEELS)
        yield _load_copy(unpacked, inside)


def _load_copy(root: Path, inside: str) -> dict[str, Loaded]:
    return {each.name: each for each in load(root, root / inside, kept=read_kept_overrides(root))}


def _find_relative_folder(project: Project, revision: str) -> str:
    try:
        return project.files.relative_to(project.root).as_posix()
    except ValueError:
        problem = f"{project.files}: isn't in the project {project.root}"
        raise RevisionError(revision, problem) from None


def _run_git(root: Path, revision: str, *arguments: str) -> str:
    try:
        command = ["git", "-C", str(root), *arguments]
        ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    except FileNotFoundError:
        problem = "git is not installed, and --against needs it; install git"
        raise RevisionError(revision, problem) from None
    if ran.returncode:
        lines = ran.stderr.strip().splitlines() or ["git failed"]
        said = lines[0].removeprefix("fatal: ")
        raise RevisionError(revision, f"{said}; pass a commit, branch, or tag that git log shows")
    return ran.stdout
