"""`--set ENV.KEY=VALUE`: a key of an environment file, for one run of a command."""

from pathlib import Path

import click

from infra.parameters.loading import Loaded, load
from infra.parameters.overrides import from_options, strangers

SET = click.option(
    "--set", "sets", multiple=True, metavar="ENV.KEY=VALUE", help="One key, for this run."
)


def loaded_with(sets: tuple[str, ...], root: Path, files: Path) -> list[Loaded]:
    """Every environment of the folder. Raises click.UsageError for what is no key of one."""
    overrides = from_options(dict(_parted(one) for one in sets))
    loaded = load(root, files, overrides, "--set")
    lost = strangers(overrides, [one.name for one in loaded], "--set")
    if lost:
        raise click.UsageError("\n".join(map(str, lost)))
    return loaded


def _parted(option: str) -> tuple[str, str]:
    key, equals, value = option.partition("=")
    if not equals or "." not in key:
        raise click.UsageError(f"--set {option}: not of the form ENV.KEY=VALUE")
    return key, value
