"""The project, its environments with the keys set for this run, and their CDK commands.

Functions import the code that reads and checks environments, so that the help of a command
doesn't wait for it.
"""

import shlex
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from infra.parameters.finding import suggest_name
from servable.project.completion import complete_keys
from servable.project.folder import FOLDER, find_project_folder, is_project

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


def find_project(folder: str) -> tuple[Path, Path]:
    """Return (project folder, folder of its environment files), both absolute.

    `folder`: relative to the working folder or to the project. Paths in an environment are
    relative to the project. Environment files outside the project belong to the nearest project,
    or folder with a cdk.json, above them. Raises click.UsageError.
    """
    root = find_project_folder()
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


def build_unknown_error(name: str, known: Collection[str]) -> click.UsageError:
    """Return the error for an environment that doesn't exist; it lists the known environments."""
    if not known:
        return click.UsageError(f"there is no environment {name!r}, nor any other; {FIRST}")
    return click.UsageError(
        f"there is no environment {name!r}; allowed: {', '.join(known)}; {suggest_name(name, known)}"
    )


def find_environment(loaded: "Iterable[Loaded]", name: str) -> "Loaded":
    """Return the environment with this name. Raises click.UsageError if there is none."""
    known = {environment.name: environment for environment in loaded}
    if name not in known:
        raise build_unknown_error(name, known)
    return known[name]


def load_environments(
    sets: tuple[str, ...], root: Path, files: Path, *, name: str | None = None
) -> "list[Loaded]":
    """Return every environment of the folder, with the overrides that cdk.json gives.

    `sets`: ENV.KEY=VALUE; with `name` also KEY=VALUE of it. Raises click.UsageError for a key that no
    environment has.
    """
    from infra.parameters.loading import load
    from infra.parameters.overrides import find_unknown_environments, from_options

    overrides = from_options(dict(_split_option(option, of=name) for option in sets))
    loaded = load(root, files, overrides, "--set", read_kept(root))
    if name is None:  # else each key is of `name`, and `named` refuses a name that is unknown
        lost = find_unknown_environments(
            overrides, [environment.name for environment in loaded], "--set"
        )
        if lost:
            raise click.UsageError("\n".join(map(str, lost)))
    return loaded


def read_kept(root: Path) -> "Overrides":
    """Return the overrides in cdk.json's context, which `cdk` applies in every run; none without the file."""
    from infra.parameters import overrides

    file = root / "cdk.json"
    return overrides.read_kept(file.read_text(encoding="utf-8")) if file.is_file() else {}


def load_environment(
    name: str, folder: str, sets: tuple[str, ...] = ()
) -> "tuple[ValidFile, Path]":
    """Return (an environment whose file is valid, the folder of its file).

    `sets`: KEY=VALUE or ENV.KEY=VALUE. Raises click.UsageError for an unknown name and
    ClickException for a file that doesn't load.
    """
    from infra.parameters.loading import ValidFile
    from infra.preflight.rendering import format_findings

    root, files = find_project(folder)
    loaded = find_environment(load_environments(sets, root, files, name=name), name)
    if not isinstance(loaded, ValidFile):
        raise click.ClickException(
            f"{loaded.file}: does not load:\n{format_findings(loaded.findings)}"
        )
    return loaded, files


def load_endpoint_environment(
    name: str, folder: str, sets: tuple[str, ...] = ()
) -> "tuple[ValidFile, Path]":
    """Return (an environment that has an endpoint, the folder of its file).

    Raises click.UsageError for an environment that has only batch jobs, and what
    `load_environment` raises.
    """
    loaded, files = load_environment(name, folder, sets)
    require_endpoint(loaded)
    return loaded, files


def require_endpoint(loaded: "ValidFile") -> None:
    """Raise click.UsageError for an environment that has only batch jobs and no endpoint."""
    if not loaded.environment.variants:
        raise click.UsageError(
            f"{loaded.file}: it has no [variants.NAME], and so no endpoint; `servable batch {loaded.name}` "
            f"runs its batches ({', '.join(loaded.environment.batch)})"
        )


def list_errors(loaded: "Loaded") -> list[str]:
    """Return the errors of `servable check`, except the one that packing corrects."""
    from infra.preflight.check import check, select_errors

    return [
        str(finding)
        for finding in select_errors(check(loaded))
        if finding.rule != MENDED_BY_PACKING
    ]


def _split_option(option: str, of: str | None = None) -> tuple[str, str]:
    """Return ("ENV.KEY", VALUE) from the text of a `--set` option.

    `of`: the environment's name, if the option may leave it out.
    """
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


def find_cdk_command() -> str:
    """Return `cdk` if the shell finds it, otherwise `npx cdk`, which runs the project's."""
    return "cdk" if shutil.which("cdk") else "npx cdk"


def format_stage_command(
    verb: str, name: str, *, folder: str = FOLDER, overrides: Mapping[str, str] | None = None
) -> str:
    """Return the CDK command that does `verb`, such as deploy, with all stacks of an environment.

    `folder`: the folder of the environment files, if it isn't the default. `overrides`: KEY to
    value.
    """
    options = [f"environments={folder}"] if folder != FOLDER else []
    options += [f"{name}.{key}={value}" for key, value in (overrides or {}).items()]
    return " ".join(
        [f"{find_cdk_command()} {verb} '{name}/*'", *(f"-c {shlex.quote(o)}" for o in options)]
    )
