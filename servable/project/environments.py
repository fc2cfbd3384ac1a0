"""The project, the environments that a command works on with the keys of this run, and their cdk commands.

Functions import what reads and checks environments: the help of a command does not wait for it.
"""

import shlex
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from infra.parameters.finding import meant
from servable.project.completion import complete_keys
from servable.project.folder import FOLDER, is_project, standing_in

if TYPE_CHECKING:
    from infra.parameters.loading import Loaded, ValidFile
    from infra.parameters.overrides import Overrides


# Packing vendors the code, and a model is packed before it is served on this computer.
MENDED_BY_PACKING = "code-not-vendored"

FIRST = "`servable init SAVED_MODEL` writes a first one"
ENVIRONMENTS = click.option(
    "--environments", "folder", default=FOLDER, help="Folder of the environment files."
)
SET = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="[ENV.]KEY=VALUE",
    shell_complete=complete_keys,
    help="Set one key for this run; ENV may be left out where one environment is named.",
)


def project(folder: str) -> tuple[Path, Path]:
    """Return (project folder, folder of its environment files), both absolute.

    `folder`: relative to the working folder or to the project. Paths in an environment are relative
    to the project. Environment files outside the project belong to the nearest project, or folder
    with a cdk.json, above them. Raises click.UsageError.
    """
    root = standing_in()
    if folder == FOLDER:
        # The project's own folder, even if the working folder has one of the same name; a link too.
        if not (root / FOLDER).is_dir():
            raise click.UsageError(
                f"{root}: neither this folder nor one above it contains environments/; create a project with "
                "`servable new DIRECTORY`, or name a project: `servable --project FOLDER COMMAND`"
            )
        return root, root / FOLDER
    candidates = (Path.cwd() / folder, root / folder)
    files = next((path.resolve() for path in candidates if path.is_dir()), None)
    if files is None:
        raise click.UsageError(
            f"{folder}: no such folder here or in {root}; give --environments FOLDER"
        )
    if files.is_relative_to(root):
        return root, files
    above = [path for path in files.parents if is_project(path) or (path / "cdk.json").is_file()]
    return (above[0] if above else root, files)


def unknown(name: str, known: Collection[str]) -> click.UsageError:
    """Return the error for an environment that does not exist; it lists the known ones."""
    if not known:
        return click.UsageError(f"there is no environment {name!r}, nor any other; {FIRST}")
    return click.UsageError(
        f"there is no environment {name!r}; allowed: {', '.join(known)}; {meant(name, known)}"
    )


def named(loaded: "Iterable[Loaded]", name: str) -> "Loaded":
    """Return the environment of this name. Raises click.UsageError if there is none."""
    known = {environment.name: environment for environment in loaded}
    if name not in known:
        raise unknown(name, known)
    return known[name]


def loaded_with(
    sets: tuple[str, ...], root: Path, files: Path, *, name: str | None = None
) -> "list[Loaded]":
    """Return every environment of the folder, with the overrides that cdk.json gives.

    `sets`: ENV.KEY=VALUE; with `name` also KEY=VALUE of it. Raises click.UsageError for a key that no
    environment has.
    """
    from infra.parameters.loading import load
    from infra.parameters.overrides import from_options, strangers

    overrides = from_options(dict(_parted(option, of=name) for option in sets))
    loaded = load(root, files, overrides, "--set", read_kept(root))
    if name is None:  # else each key is of `name`, and `named` refuses a name that is unknown
        lost = strangers(overrides, [environment.name for environment in loaded], "--set")
        if lost:
            raise click.UsageError("\n".join(map(str, lost)))
    return loaded


def read_kept(root: Path) -> "Overrides":
    """Return the overrides in cdk.json's context, which `cdk` applies in every run; none without the file."""
    from infra.parameters import overrides

    file = root / "cdk.json"
    return overrides.read_kept(file.read_text(encoding="utf-8")) if file.is_file() else {}


def one_environment(name: str, folder: str, sets: tuple[str, ...] = ()) -> "tuple[ValidFile, Path]":
    """Return (an environment whose file loads, the folder of its file).

    `sets`: KEY=VALUE, or ENV.KEY=VALUE. Raises click.UsageError for an unknown name, and
    ClickException for a file that does not load.
    """
    from infra.parameters.loading import ValidFile
    from infra.preflight.rendering import listed

    root, files = project(folder)
    loaded = named(loaded_with(sets, root, files, name=name), name)
    if not isinstance(loaded, ValidFile):
        raise click.ClickException(f"{loaded.file}: does not load:\n{listed(loaded.findings)}")
    return loaded, files


def environment_with_endpoint(
    name: str, folder: str, sets: tuple[str, ...] = ()
) -> "tuple[ValidFile, Path]":
    """Return what `one_environment` does. Raises click.UsageError for an environment of batches alone."""
    loaded, files = one_environment(name, folder, sets)
    refuse_without_endpoint(loaded)
    return loaded, files


def refuse_without_endpoint(loaded: "ValidFile") -> None:
    """Raise click.UsageError for an environment of batches alone."""
    if not loaded.environment.variants:
        raise click.UsageError(
            f"{loaded.file}: it has no [variants.NAME], and so no endpoint; `servable batch {loaded.name}` "
            f"runs its batches ({', '.join(loaded.environment.batch)})"
        )


def refused(loaded: "Loaded") -> list[str]:
    """Return the errors of `servable check`, without those that packing corrects."""
    from infra.preflight.check import check, errors

    return [str(finding) for finding in errors(check(loaded)) if finding.rule != MENDED_BY_PACKING]


def _parted(option: str, of: str | None = None) -> tuple[str, str]:
    """Return ("ENV.KEY", VALUE) of an option. `of`: the environment's name, if it may be left out."""
    key, equals, value = option.partition("=")
    if of is not None and key:
        key = f"{of}.{key.removeprefix(f'{of}.')}"
    if equals and "." in key and not set(key.partition(".")[0]) & set(":/@"):
        return key, value
    if of is not None or not equals:
        raise click.UsageError(f"--set {option}: expected {'' if of else 'ENV.'}KEY=VALUE")
    raise click.UsageError(
        f"--set {option}: expected ENV.KEY=VALUE, because not exactly one environment is named; "
        f"write --set prod.{option} to set the key of prod"
    )


def cdk() -> str:
    """Return `cdk` if a shell here finds it; otherwise `npx cdk`, which runs the project's own."""
    return "cdk" if shutil.which("cdk") else "npx cdk"


def stage_command(
    verb: str, name: str, *, folder: str = FOLDER, overrides: Mapping[str, str] | None = None
) -> str:
    """Return the command that does `verb`, for example deploy, with every stack of an environment.

    `folder`: of the environment files, if it isn't the usual one. `overrides`: KEY to value.
    """
    options = [f"environments={folder}"] if folder != FOLDER else []
    options += [f"{name}.{key}={value}" for key, value in (overrides or {}).items()]
    return " ".join([f"{cdk()} {verb} '{name}/*'", *(f"-c {shlex.quote(o)}" for o in options)])
