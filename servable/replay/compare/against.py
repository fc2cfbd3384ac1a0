"""The target of `--against`: another environment, a git revision of it, or an address."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from infra.parameters.loading import ValidFile
from infra.parameters.sources import names
from model_packaging.private_folder import private_folder
from servable.load.options import TargetOptions, is_url
from servable.load.reached import ReadyTarget, reached_by
from servable.project.environments import one_environment, project
from servable.project.revision import checked_out


@contextmanager
def other_target(
    against: str, loaded: ValidFile | None, folder: str, output: Path, options: TargetOptions
) -> Iterator[ReadyTarget]:
    """Prepare the other target while the block lasts. `loaded`: the environment that is judged; None: an
    address.

    An environment's name comes before a git revision of the same name. A revision is packed as it was, and
    runs on this computer. Raises click.UsageError, and what preparing a target raises.
    """
    output = private_folder(output)
    if is_url(against):
        with reached_by(against, None, [], output, options) as reached:
            yield reached
        return
    if loaded is None:
        raise click.UsageError(
            f"--against {against}: beside an address only another address can be asked"
        )
    root, files = project(folder)
    if against in names(files):
        other = one_environment(against, folder)[0]
        with reached_by(
            against, other, [], output, dataclasses.replace(options, variant=None)
        ) as reached:
            yield reached
        return
    with checked_out(root, files, against) as then:
        before = then.get(loaded.name)
        if not isinstance(before, ValidFile):
            raise click.UsageError(
                f"--against {against}: environment {loaded.name} was not there, or did not load"
            )
        with reached_by(
            loaded.name, before, [], output, dataclasses.replace(options, target="local")
        ) as reached:
            yield reached
