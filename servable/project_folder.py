"""The folder of the project that somebody stands in. Imports nothing that takes time."""

from pathlib import Path

import click

from model_packaging.places import MADE

FOLDER = "environments"
"""What makes a folder a project."""


def is_project(folder: Path) -> bool:
    """Whether it has an environments/ of ours: with TOML files or their schema, or empty."""
    try:
        inside = [one.name for one in (folder / FOLDER).iterdir()]
    except OSError:
        return False  # no folder, or one that this user may not read
    return not inside or any(one.endswith(".toml") or one == "schema.json" for one in inside)


def standing_in() -> Path:
    """The folder of --project; else the nearest project from the working folder upwards, as git
    looks for its own; else the working folder."""
    here = Path.cwd()
    context = click.get_current_context(silent=True)
    given: str | None = context.find_root().params.get("project") if context else None
    if given is not None:
        return (here / given).resolve()
    return next((one for one in (here, *here.parents) if is_project(one)), here)


def state_folder() -> Path:
    """What a project keeps on this computer, its local AWS included."""
    return standing_in() / MADE
