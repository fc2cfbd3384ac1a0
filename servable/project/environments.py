"""The project, its environments with the keys set for this run, and their CDK commands.

Functions import the code that reads and checks environments, so that the help of a command
doesn't wait for it.
"""

import shlex
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from infra.parameters.finding import suggest_name
from servable.project.completion import complete_keys
from servable.project.folder import FOLDER, find_project_folder, is_project

if TYPE_CHECKING:
    from infra.parameters.finding import Finding
    from infra.parameters.loading import Loaded, ValidFile
    from infra.parameters.overrides import Overrides


# Packing vendors the code, and a model is packed before it is served on this computer.
FIXED_BY_PACKING = "code-not-vendored"

FIRST = "`servable init SAVED_MODEL` creates one"
ENVIRONMENTS = click.option(
    "--environments", "folder", default=FOLDER, help="Folder of the environment files."
)
SET = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="[ENV.]KEY=VALUE",
    shell_complete=complete_keys,
    help="Set one key for this run. You can omit ENV if the command names one environment.",
)


@dataclass(frozen=True)
class Project:
    """A project's folder, environment files, and keys for this run; looked up when needed."""

    folder: str = FOLDER
    """Folder of the files, relative to the working folder or to the project."""
    sets: tuple[str, ...] = ()
    """ENV.KEY=VALUE; also KEY=VALUE where one environment is named."""

    @property
    def root(self) -> Path:
        """Return the absolute project folder, to which paths in an environment are relative."""
        return self._folders[0]

    @property
    def files(self) -> Path:
        """Return the absolute folder of the environment files."""
        return self._folders[1]

    @cached_property
    def _folders(self) -> tuple[Path, Path]:
        """Return `root` and `files`. Raises click.UsageError.

        Environment files outside the project belong to the nearest project, or folder with a
        cdk.json, above them.
        """
        root = find_project_folder()
        if self.folder == FOLDER:
            # The project's own folder, even if the working folder has one of the same name; a link too.
            if not (root / FOLDER).is_dir():
                raise click.UsageError(
                    f"{root}: neither this folder nor one above it contains environments/; create a project "
                    "with `servable new DIRECTORY`, or pass one: `servable --project FOLDER COMMAND`"
                )
            return root, root / FOLDER
        candidates = (Path.cwd() / self.folder, root / self.folder)
        files = next((path.resolve() for path in candidates if path.is_dir()), None)
        if files is None:
            problem = f"{self.folder}: there is no such folder here or in {root}"
            raise click.UsageError(f"{problem}; pass --environments FOLDER")
        if files.is_relative_to(root):
            return root, files
        above = (up for up in files.parents if is_project(up) or (up / "cdk.json").is_file())
        return next(above, root), files

    def load_all(self, name: str | None = None) -> "list[Loaded]":
        """Return every environment, with the overrides of this run and those in cdk.json.

        `name`: the environment whose keys `sets` may give without ENV. Raises click.UsageError
        for a key that no environment has.
        """
        from infra.parameters.loading import load
        from infra.parameters.overrides import find_unknown_environments, from_options

        overrides = from_options(dict(_split_option(option, of=name) for option in self.sets))
        loaded = load(self.root, self.files, overrides, "--set", read_kept_overrides(self.root))
        if name is None:  # otherwise each key is of `name`, and `load` rejects an unknown name
            names = [environment.name for environment in loaded]
            if lost := find_unknown_environments(overrides, names, "--set"):
                raise click.UsageError("\n".join(map(str, lost)))
        return loaded

    def load(self, name: str) -> "Loaded":
        """Return an environment. Raises click.UsageError for an unknown name."""
        return find_environment(self.load_all(name), name)

    def load_valid(self, name: str) -> "ValidFile":
        """Return an environment. Raises ClickException for a file that doesn't load."""
        from infra.parameters.loading import ValidFile
        from infra.preflight.rendering import format_findings

        loaded = self.load(name)
        if not isinstance(loaded, ValidFile):
            findings = format_findings(loaded.findings)
            raise click.ClickException(f"{loaded.file}: can't be loaded:\n{findings}")
        return loaded

    def load_endpoint(self, name: str) -> "ValidFile":
        """Return an environment, like `load_valid`. Raises click.UsageError if it has no endpoint."""
        loaded = self.load_valid(name)
        require_endpoint(loaded)
        return loaded


def pass_project(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --environments and --set to a command, and pass the `Project` as its first argument."""

    @ENVIRONMENTS
    @SET
    @wraps(command)
    def run(*, folder: str, sets: tuple[str, ...], **values: Any) -> Any:
        return command(Project(folder, sets), **values)

    return run


def build_unknown_error(name: str, known: Collection[str]) -> click.UsageError:
    """Return the error for an environment that doesn't exist; it lists the known environments."""
    others = f", and the folder has no others; {FIRST}"
    if known:
        others = f"; allowed: {', '.join(known)}; {suggest_name(name, known)}"
    return click.UsageError(f"there is no environment {name!r}{others}")


def find_environment(loaded: "Iterable[Loaded]", name: str) -> "Loaded":
    """Return the environment with this name. Raises click.UsageError if there is none."""
    known = {environment.name: environment for environment in loaded}
    if name not in known:
        raise build_unknown_error(name, known)
    return known[name]


def read_kept_overrides(root: Path) -> "Overrides":
    """Return the overrides in cdk.json's context, which `cdk` applies in every run; none without the file."""
    from infra.parameters.overrides import parse_kept_overrides

    file = root / "cdk.json"
    return parse_kept_overrides(file.read_text(encoding="utf-8")) if file.is_file() else {}


def require_endpoint(loaded: "ValidFile") -> None:
    """Raise click.UsageError for an environment that has only batch jobs and no endpoint."""
    if not loaded.environment.variants:
        raise click.UsageError(
            f"{loaded.file}: it has no [variants.NAME], so no endpoint; `servable batch {loaded.name}` "
            f"runs its batches ({', '.join(loaded.environment.batch)})"
        )


def select_lasting_errors(findings: "Sequence[Finding]") -> "list[Finding]":
    """Return the errors, except the one that packing corrects."""
    from infra.preflight.check import select_errors

    return [each for each in select_errors(findings) if each.rule != FIXED_BY_PACKING]


def list_errors(loaded: "Loaded") -> list[str]:
    """Return the errors of `servable check`, except the one that packing corrects."""
    from infra.preflight.check import check

    return [str(finding) for finding in select_lasting_errors(check(loaded))]


def _split_option(option: str, of: str | None) -> tuple[str, str]:
    """Return ("ENV.KEY", VALUE) of a `--set` option, which may leave out the name `of`."""
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
    """Return the CDK command for all stacks of an environment. `overrides`: KEY to value."""
    context = [f"environments={folder}"] if folder != FOLDER else []
    context += [f"{name}.{key}={value}" for key, value in (overrides or {}).items()]
    options = (f" -c {shlex.quote(each)}" for each in context)
    return f"{find_cdk_command()} {verb} '{name}/*'{''.join(options)}"
