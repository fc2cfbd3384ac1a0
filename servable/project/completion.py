"""Shell completions besides commands and options: environments, keys of `--set`, and revisions.

A shell calls these functions at every press of the Tab key, so each imports what it needs itself.
"""

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
from click import Context, Parameter

from servable.project.folder import FOLDER, find_project_folder


def complete_environments(context: Context, parameter: Parameter, incomplete: str) -> list[str]:
    """Return the names of the project's environments that start with `incomplete`."""
    return [name for name in _list_environments(context) if name.startswith(incomplete)]


def complete_keys(context: Context, parameter: Parameter, incomplete: str) -> list[str]:
    """Return the keys of `--set` with this beginning, or environments while none is named."""
    environments = _list_environments(context)
    prefix = next((f"{name}." for name in environments if incomplete.startswith(f"{name}.")), "")
    name = prefix.removesuffix(".") or _find_named_environment(context)
    if name not in environments:
        return [f"{each}." for each in environments if each.startswith(incomplete)]
    from infra.parameters.sources import read_source

    files = _find_environments_folder(context)
    keys = _iterate_keys((), read_source(files.parent, files, name).values)
    return [f"{prefix}{key}=" for key in keys if f"{prefix}{key}".startswith(incomplete)]


def complete_revisions(context: Context, parameter: Parameter, incomplete: str) -> list[str]:
    """Return HEAD and the branches and tags of the project that start with `incomplete`."""
    with context.scope(cleanup=False):
        root = find_project_folder()
    command = ["git", "-C", str(root), "for-each-ref", "--format=%(refname:lstrip=2)"]
    kinds = ["refs/heads", "refs/tags", "refs/remotes"]
    try:
        listed = subprocess.run([*command, *kinds], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []  # no git, or no repository
    return [name for name in ["HEAD", *listed.stdout.split()] if name.startswith(incomplete)]


def complete_targets(context: Context, parameter: Parameter, incomplete: str) -> list[str]:
    """Return the environments and the revisions that start with `incomplete`."""
    revisions = complete_revisions(context, parameter, incomplete)
    return complete_environments(context, parameter, incomplete) + revisions


revision_option = partial(
    click.option, "--against", metavar="REF", shell_complete=complete_revisions
)
ENVIRONMENT = click.argument("environment", metavar="ENV", shell_complete=complete_environments)
"""The environment that a command works on."""
OPTIONAL_ENVIRONMENT = click.argument(
    "environment", metavar="[ENV]", required=False, shell_complete=complete_environments
)


def _list_environments(context: Context) -> list[str]:
    from infra.parameters.sources import list_environment_names

    return list_environment_names(_find_environments_folder(context))


def _find_environments_folder(context: Context) -> Path:
    """Return the folder of the environment files, without checking that it exists."""
    with context.scope(cleanup=False):
        root = find_project_folder()
    given = context.params.get("folder") or FOLDER
    here = Path.cwd() / given
    return here if given != FOLDER and here.is_dir() else root / given


def _find_named_environment(context: Context) -> str | None:
    """Return the environment that the command line names, or None if it names none or several.

    Click leaves the arguments in `args` where the option that is being completed has no value
    yet.
    """
    words = list(context.args)
    for parameter in ("environment", "names", "what"):
        value = context.params.get(parameter)
        words += [value] if isinstance(value, str) else list(value or ())
    return words[0] if len(words) == 1 else None


def _iterate_keys(at: tuple[str, ...], values: dict[str, Any]) -> Iterator[str]:
    """Yield every key below the table `at`; names that the file chooses come from `values`."""
    from infra.parameters.keys import list_keys

    for name in list_keys(at) or sorted(values):
        key = (*at, name)
        inside = values.get(name)
        if list_keys(key) or list_keys((*key, "NAME")):
            yield from _iterate_keys(key, inside if isinstance(inside, dict) else {})
        else:
            yield ".".join(key)
