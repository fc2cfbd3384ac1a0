"""Which project and which of its environments a command is about, with the keys set for this run."""

from collections.abc import Collection, Iterable
from pathlib import Path

import click

from infra.parameters.finding import meant
from infra.parameters.loading import Loaded, load
from infra.parameters.overrides import from_options, strangers
from infra.preflight.check import check, errors
from infra.preflight.rendering import listed
from servable.project_folder import FOLDER, is_project, standing_in

# What packing decides, which comes first where a model is served on this machine.
MENDED_BY_PACKING = "code-not-vendored"

FIRST = "`servable init SAVED_MODEL` writes a first one"
ENVIRONMENTS = click.option("--environments", "folder", default=FOLDER, help="Folder of the files.")
SET = click.option(
    "--set", "sets", multiple=True, metavar="ENV.KEY=VALUE", help="One key, for this run."
)


def project(folder: str) -> tuple[Path, Path]:
    """(the project, the folder of its environment files), both absolute.

    `folder`: relative to the working folder or to the project. Paths in an environment are relative
    to the project. Files outside of it belong to the nearest project, or folder with a
    cdk.json, above them. Raises click.UsageError.
    """
    root = standing_in()
    if folder == FOLDER:
        # Of the project, also where a folder below has one of the same name; a link too.
        if not (root / FOLDER).is_dir():
            raise click.UsageError(
                f"{root}: there is no environments/ here, nor in a folder above; make a project with "
                "`servable new DIRECTORY`, or name one: `servable --project FOLDER COMMAND`"
            )
        return root, root / FOLDER
    places = (Path.cwd() / folder, root / folder)
    files = next((one.resolve() for one in places if one.is_dir()), None)
    if files is None:
        raise click.UsageError(
            f"{folder}: there is no such folder here, nor in {root}; give --environments FOLDER"
        )
    if files.is_relative_to(root):
        return root, files
    above = [one for one in files.parents if is_project(one) or (one / "cdk.json").is_file()]
    return (above[0] if above else root, files)


def unknown(name: str, known: Collection[str]) -> click.UsageError:
    """What to raise for an environment that is not there: which are, and which was meant."""
    if not known:
        return click.UsageError(f"there is no environment {name!r}, nor any other; {FIRST}")
    return click.UsageError(
        f"there is no environment {name!r}; allowed: {', '.join(known)}; {meant(name, known)}"
    )


def named(loaded: Iterable[Loaded], name: str) -> Loaded:
    """Raises click.UsageError where none is."""
    known = {one.name: one for one in loaded}
    if name not in known:
        raise unknown(name, known)
    return known[name]


def loaded_with(sets: tuple[str, ...], root: Path, files: Path) -> list[Loaded]:
    """Every environment of the folder. `sets`: ENV.KEY=VALUE.

    Raises click.UsageError for what is no key of one.
    """
    overrides = from_options(dict(_parted(one) for one in sets))
    loaded = load(root, files, overrides, "--set")
    lost = strangers(overrides, [one.name for one in loaded], "--set")
    if lost:
        raise click.UsageError("\n".join(map(str, lost)))
    return loaded


def one_environment(name: str, folder: str, sets: tuple[str, ...] = ()) -> tuple[Loaded, Path]:
    """(an environment without problems of shape, the folder of its file).

    `sets`: KEY=VALUE, or ENV.KEY=VALUE. Raises click.UsageError for a name that is not there,
    ClickException for a file that does not load.
    """
    root, files = project(folder)
    overrides = from_options(dict(_parted(one, of=name) for one in sets))
    loaded = named(load(root, files, overrides, "--set"), name)
    if loaded.environment is None:
        raise click.ClickException(f"{loaded.file}: does not load:\n{listed(loaded.findings)}")
    return loaded, files


def refused(loaded: Loaded) -> list[str]:
    """What `servable check` refuses of it, but for what packing mends."""
    return [str(one) for one in errors(check(loaded)) if one.rule != MENDED_BY_PACKING]


def _parted(option: str, of: str | None = None) -> tuple[str, str]:
    """("ENV.KEY", VALUE) of an option. `of`: the environment, where it may be left out."""
    key, equals, value = option.partition("=")
    if of is not None:
        key = key.removeprefix(f"{of}.")
        key = key and f"{of}.{key}"
    if not equals or "." not in key:
        form = "ENV.KEY=VALUE" if of is None else "KEY=VALUE"
        raise click.UsageError(f"--set {option}: not of the form {form}")
    return key, value
