"""`servable serve --reload`: notice edited files, and serve what they say on the same port."""

import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import click

from infra.packing import archive_inputs
from infra.parameters.loading import ValidFile
from model_packaging.refusal import PackagingError
from model_packaging.tree import LEFT_OUT
from servable.project.environments import refused
from servable.project.provided import EndpointProcess, LaunchError
from servable.serve.serve import READY_TIMEOUT_SECONDS, PreparedVariant, prepared

Snapshot = Mapping[Path, tuple[int, int]]
"""Modification time and size of each file."""
# Another package is resolved, fetched, and packed when one of them changes.
_REQUIREMENTS = ("requirements.txt", "requirements.lock")
# Editors write several files, one after the other.
_SETTLE_SECONDS = 0.05


def take_snapshot(paths: Iterable[Path]) -> Snapshot:
    """Return the state of these files, and of those in these folders that an archive takes."""
    found: dict[Path, tuple[int, int]] = {}
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        try:
            if path.is_dir():
                waiting += [each for each in path.iterdir() if each.name not in LEFT_OUT]
            else:
                status = path.stat()
                found[path] = (status.st_mtime_ns, status.st_size)
        except OSError:
            continue  # an editor replaces it now
    return found


def list_changes(before: Snapshot, after: Snapshot) -> list[Path]:
    """Return the files that are new, changed, or gone."""
    return sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )


class Reloader:
    """Watches the files of one served environment. Call `poll` until the process ends."""

    def __init__(
        self,
        process: EndpointProcess,
        served: PreparedVariant,
        load: Callable[[], tuple[ValidFile, Path]],
        archive: Path | None,
        since: float,
    ) -> None:
        """`load`: return the environment and the folder of its file. `archive`: served, not packed.

        `since`: the time, in seconds since 1970, before the files were read.
        """
        self._process, self._load_file, self._archive = process, load, archive
        self._served = served
        self._unapplied: set[Path] = set()
        """Changed files since the last successful reload."""
        self._numbers = itertools.count(2)
        self._watch(*load())
        found = take_snapshot(self._watched)
        self._seen: Snapshot = {
            path: state for path, state in found.items() if state[0] < since * 1e9
        }

    def _watch(self, loaded: ValidFile, files: Path) -> None:
        environment = loaded.environment
        model = environment.models[environment.served[self._served.variant].model]
        self._code = model.code.path if model.code and self._archive is None else None
        used = [model, *(environment.models[name] for name in model.also_serves)]
        self._watched = [files]
        if self._archive is not None:
            self._watched.append(self._archive)
        elif model.artifact is None:
            self._watched += [each.saved_model.path for each in used if each.saved_model]
            self._watched += [file.path for each in used for file in each.warm_up or []]
            self._watched += [self._code] if self._code else []

    def poll(self) -> None:
        """Reload what has changed since the last call, and report it."""
        if take_snapshot(self._watched) == self._seen:
            return
        time.sleep(_SETTLE_SECONDS)
        now = take_snapshot(self._watched)
        changed = list_changes(self._seen, now)
        self._seen = now
        if not changed:
            return
        self._unapplied.update(changed)
        names = ", ".join(os.path.relpath(path) for path in changed[:3])
        names += f", and {len(changed) - 3} more" if len(changed) > 3 else ""
        began = time.monotonic()
        try:
            what = self._reload()
        except click.ClickException as error:
            what = f"not applied: {error.format_message()}"
        except (LaunchError, PackagingError, OSError) as error:
            what = f"not applied: {self._served.explained(str(error))}"
        else:
            self._unapplied.clear()
            what += f" ({time.monotonic() - began:.1f} s)"
        click.echo(f"{names}: {what}", err=True)

    def _reload(self) -> str:
        loaded, files = self._load_file()
        if problems := refused(loaded):
            raise click.ClickException("\n".join(problems))
        name, known = self._served.variant, loaded.environment.served
        if name not in known:
            raise click.ClickException(f"there is no variant {name!r}; allowed: {', '.join(known)}")
        self._watch(loaded, files)
        model = self._process.folder / f"model-{next(self._numbers)}"
        if all(self._is_code(path) for path in self._unapplied):
            self._write_code(loaded, model)
            self._apply(None, self._served, model)
            self._served = replace(self._served, archive=None)  # it isn't packed
            return "reloaded the code"
        served = prepared(loaded, variant=self._served.variant, archive=self._archive)
        if served == self._served and self._archive not in self._unapplied:
            return "changes nothing that is served"
        if served.archive is None:
            raise click.ClickException("multi-model mode needs a new start of `servable serve`")
        self._apply(served.archive, served, model)
        self._served = served
        return "reloaded the model, the code, and the container's settings"

    def _is_code(self, path: Path) -> bool:
        code = self._code
        return code is not None and path.is_relative_to(code) and path.name not in _REQUIREMENTS

    def _write_code(self, loaded: ValidFile, folder: Path) -> None:
        """Write the code/ of the archive into `folder`, without packing the model."""
        model = loaded.environment.served[self._served.variant].model
        folder.mkdir()
        for entry in archive_inputs(loaded.environment, model, loaded.root).code_tree().entries:
            target = folder / entry.name
            if entry.is_folder:
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(entry.path, target)

    def _apply(self, archive: Path | None, served: PreparedVariant, model: Path) -> None:
        seconds = served.startup_timeout_seconds or READY_TIMEOUT_SECONDS
        self._process.reload(
            archive,
            served.variables,
            model=model,
            ready_timeout_seconds=seconds,
            tensorflow=served.tensorflow,
        )
