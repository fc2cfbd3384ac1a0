"""The one environment that a command is about, loaded and without problems."""

from pathlib import Path

import click

from infra.parameters.loading import Loaded, load
from infra.parameters.overrides import from_options
from infra.preflight.check import check, errors
from servable.project import project, unknown

# What packing decides, which comes first where a model is served on this machine.
MENDED_BY_PACKING = "code-not-vendored"


def one_environment(name: str, folder: str, sets: tuple[str, ...] = ()) -> tuple[Loaded, Path]:
    """(the environment, the folder of its file). `sets`: KEY=VALUE, or ENV.KEY=VALUE.

    Raises click.UsageError for a name that is not there, ClickException for a file that does
    not load.
    """
    root, files = project(folder)
    told = dict(_parted(one, name) for one in sets)
    known = {one.name: one for one in load(root, files, from_options(told), "--set")}
    if name not in known:
        raise unknown(name, known)
    loaded = known[name]
    if loaded.environment is None:
        lines = "\n".join(f"  {one}" for one in loaded.findings)
        raise click.ClickException(f"{loaded.file}: does not load:\n{lines}")
    return loaded, files


def refused(loaded: Loaded) -> list[str]:
    """What `servable check` refuses of it, but for what packing mends."""
    return [str(one) for one in errors(check(loaded)) if one.rule != MENDED_BY_PACKING]


def _parted(option: str, name: str) -> tuple[str, str]:
    key, equals, value = option.partition("=")
    key = key.removeprefix(f"{name}.")
    if not equals or not key:
        raise click.UsageError(f"--set {option}: not of the form KEY=VALUE")
    return f"{name}.{key}", value
