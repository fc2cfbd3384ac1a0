"""Find the project folder. This module imports nothing that is slow."""

from pathlib import Path

import click

from model_packaging.beside import MADE

FOLDER = "environments"
"""The subfolder that makes a folder a project."""


def is_project(folder: Path) -> bool:
    """Return whether a folder's environments/ has TOML files or their schema, or is empty."""
    try:
        inside = [name.name for name in (folder / FOLDER).iterdir()]
    except OSError:
        return False  # not a folder, or not readable
    return not inside or any(name.endswith(".toml") or name == "schema.json" for name in inside)


def find_project_folder() -> Path:
    """Return the folder of the current project.

    It is the folder of --project; otherwise the nearest project at or above the working folder
    (as git finds its repository); otherwise the working folder.
    """
    here = Path.cwd()
    context = click.get_current_context(silent=True)
    given: str | None = context.find_root().params.get("project") if context else None
    if given is not None:
        return (here / given).resolve()
    return next((folder for folder in (here, *here.parents) if is_project(folder)), here)


def find_state_folder() -> Path:
    """Return the folder for a project's local state, for example of its local AWS."""
    return find_project_folder() / MADE
