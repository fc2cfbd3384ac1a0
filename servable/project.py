"""Which project a command is about."""

from collections.abc import Collection
from pathlib import Path

import click

from infra.parameters.finding import meant


def project(folder: str) -> tuple[Path, Path]:
    """(the project, the folder of its environment files), both absolute.

    The project is the nearest folder above the files that has a cdk.json: what paths in an
    environment are relative to. Else the working folder. Raises click.UsageError.
    """
    files = (Path.cwd() / folder).resolve()
    if not files.is_dir():
        raise click.UsageError(
            f"{folder}: there is no such folder here; run this in the project, or give --environments"
        )
    above = [one for one in files.parents if (one / "cdk.json").is_file()]
    return (above[0] if above else Path.cwd(), files)


def unknown(name: str, known: Collection[str]) -> click.UsageError:
    """What to raise for an environment that is not there: which are, and which was meant."""
    allowed = ", ".join(known) or "none: the folder has no environment"
    return click.UsageError(
        f"there is no environment {name!r}; allowed: {allowed}; {meant(name, known)}"
    )
