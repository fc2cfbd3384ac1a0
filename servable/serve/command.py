"""`servable serve ENV`: serve the endpoint on this computer until Ctrl-C, and serve edited files anew."""

import itertools
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import click

from infra.packing import build_archive_inputs
from infra.parameters.loading import ValidFile
from model_packaging.beside import create_private_folder, open_private
from model_packaging.refusal import PackagingError
from model_packaging.tree import LEFT_OUT, Tree
from servable.console.signals import enable_ctrl_c
from servable.project.completion import ENVIRONMENT
from servable.project.environments import Project, list_errors, pass_project
from servable.project.provided import EndpointProcess, LaunchError, Recording
from servable.serve.serve import (
    Faults,
    PreparedVariant,
    prepare_variant,
    serve_image,
    serve_locally,
)

Snapshot = Mapping[Path, tuple[int, int]]
"""Modification time and size of each file."""
# Another package is resolved, fetched, and packed when one of them changes.
_REQUIREMENTS = ("requirements.txt", "requirements.lock")
# Editors write several files, one after the other.
_SETTLE_SECONDS = 0.05


def take_snapshot(paths: Iterable[Path]) -> Snapshot:
    """Return the modification times and sizes of these files, and of a folder's packed files."""
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
    """Return the files that were added, changed, or deleted."""
    paths = before.keys() | after.keys()
    return sorted(path for path in paths if before.get(path) != after.get(path))


class Reloader:
    """Watches the files of one served environment. Call `poll` repeatedly until the process ends."""

    def __init__(
        self,
        process: EndpointProcess,
        served: PreparedVariant,
        project: Project,
        environment: str,
        archive: Path | None,
        since: float,
    ) -> None:
        """Start watching the files of the served variant.

        `environment`: its name. `archive`: an archive that is served instead of a packed one.
        `since`: the time, in seconds since 1970, before the files were read.
        """
        self._process, self._archive, self._served = process, archive, served
        self._project, self._environment = project, environment
        self._unapplied: set[Path] = set()
        """Changed files since the last successful reload."""
        self._numbers = itertools.count(2)
        self._set_watched_paths(project.load_endpoint(environment))
        found = take_snapshot(self._watched).items()
        self._seen: Snapshot = {path: state for path, state in found if state[0] < since * 1e9}

    def _set_watched_paths(self, loaded: ValidFile) -> None:
        environment = loaded.environment
        model = environment.models[environment.serving_variants[self._served.variant].model]
        self._code = model.code.path if model.code and self._archive is None else None
        used = [model, *(environment.models[name] for name in model.also_serves)]
        self._watched = [self._project.files, *filter(None, (self._archive, self._code))]
        if self._archive is None and model.artifact is None:
            self._watched += [each.saved_model.path for each in used if each.saved_model]
            self._watched += [file.path for each in used for file in each.warm_up or []]

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
            what = f"not applied: {self._served.explain_failure(str(error))}"
        else:
            self._unapplied.clear()
            what += f" ({time.monotonic() - began:.1f} s)"
        click.echo(f"{names}: {what}", err=True)

    def _reload(self) -> str:
        loaded = self._project.load_endpoint(self._environment)
        if problems := list_errors(loaded):
            raise click.ClickException("\n".join(problems))
        name, known = self._served.variant, loaded.environment.serving_variants
        if name not in known:
            raise click.ClickException(f"there is no variant {name!r}; allowed: {', '.join(known)}")
        self._set_watched_paths(loaded)
        model = self._process.folder / f"model-{next(self._numbers)}"
        code = self._code
        apart = [path for path in self._unapplied if path.name in _REQUIREMENTS]
        if code and not apart and all(path.is_relative_to(code) for path in self._unapplied):
            inputs = build_archive_inputs(loaded.environment, known[name].model, loaded.root)
            _write_tree(inputs.build_code_tree(), model)
            served, what = replace(self._served, archive=None), "the code"  # it isn't packed
        else:
            served = prepare_variant(loaded, variant=name, archive=self._archive)
            if served == self._served and self._archive not in self._unapplied:
                return "doesn't change what is served"
            if served.archive is None:
                raise click.ClickException("to apply multi-model mode, restart `servable serve`")
            what = "the model, the code, and the container's settings"
        self._process.reload(
            served.archive,
            served.variables,
            model=model,
            ready_timeout_seconds=served.ready_timeout_seconds,
            tensorflow=served.tensorflow,
        )
        self._served = served
        return f"reloaded {what}"


def _write_tree(tree: Tree, folder: Path) -> None:
    folder.mkdir()
    for entry in tree.entries:
        target = folder / entry.name
        (target if entry.is_folder else target.parent).mkdir(parents=True, exist_ok=True)
        if not entry.is_folder:
            shutil.copyfile(entry.path, target)


FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, kw_only=True)
class ServeOptions(Faults):
    """The parsed command-line options, each under its parameter's name."""

    variant: str | None
    archive: Path | None
    port: int
    docker: bool
    log: Path | None
    memory_limit_mib: int | None
    record: Path | None
    record_megabytes: float
    reload: bool
    as_json: bool


@click.command()
@ENVIRONMENT
@pass_project
@click.option(
    "--variant",
    "--component",
    "variant",
    help="Variant, or component, to serve (default: the first).",
)
@click.option("--archive", type=FILE, help="Serve this model.tar.gz instead of packing one.")
@click.option(
    "--port",
    default=8080,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port; 0 chooses a free one.",
)
@click.option("--docker", is_flag=True, help="Run the AWS image; requires Docker and the image.")
@click.option(
    "--log", type=click.Path(path_type=Path), help="File for the container's log (default: stderr)."
)
@click.option(
    "--slow-ms", default=0.0, help="Fault injection: delay every prediction by this time."
)
@click.option(
    "--fail-status",
    default=0,
    help="Fault injection: respond to every prediction with this HTTP status.",
)
@click.option("--full-queue", is_flag=True, help="Fault injection: keep the batching queue full.")
@click.option(
    "--freeze",
    is_flag=True,
    help="Fault injection: freeze the model servers; their ports stay open.",
)
@click.option(
    "--kill-every",
    "kill_every_seconds",
    type=float,
    metavar="S",
    help="Fault injection: kill the model servers every S seconds.",
)
@click.option(
    "--memory-limit-mib",
    type=int,
    help="Memory limit; if it is exceeded, the largest process is killed.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Append requests and responses to FILE, as SageMaker's data capture does; for `servable replay`.",
)
@click.option(
    "--record-megabytes",
    type=click.FloatRange(0, min_open=True),
    default=100.0,
    show_default=True,
    help="Maximum size of the recording.",
)
@click.option(
    "--reload",
    is_flag=True,
    help="Apply changes to the code, the model, or the environment file as you save them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def serve(project: Project, environment: str, **values: Any) -> int:
    """Serve ENV on 127.0.0.1 with the deployed container environment variables, until Ctrl-C."""
    options = ServeOptions(**values)
    loaded = project.load_endpoint(environment)
    if problems := list_errors(loaded):
        click.echo("\n".join(problems), err=True)
        return 1
    enable_ctrl_c()
    began = time.time()
    try:
        served = prepare_variant(loaded, variant=options.variant, archive=options.archive)
        if options.docker and options.record:
            raise click.UsageError("--record works only with the local container; omit --docker")
        if options.reload and (options.docker or served.members):
            which = "--docker" if options.docker else "multi-model mode"
            raise click.UsageError(f"--reload doesn't work with {which}; omit --reload")
        if options.docker:
            with serve_image(served, port=options.port) as container:
                _print_address(served, container.url, options.as_json)
                while container.is_running:
                    time.sleep(1.0)
            raise LaunchError("the container has ended")
        with serve_locally(
            served,
            port=options.port,
            log=options.log,
            memory_limit_mib=options.memory_limit_mib,
            faults=options,
            record=_build_recording(options),
        ) as process:
            _print_address(served, process.url, options.as_json, process)
            reloader = None
            if options.reload:
                reloader = Reloader(process, served, project, environment, options.archive, began)
            _wait_for_end(process, options, reloader)
    except (LaunchError, PackagingError) as error:
        click.echo(f"servable serve: {error}", err=True)
        return 1


def _build_recording(options: ServeOptions) -> Recording | None:
    if options.record is None:
        return None
    file = options.record.absolute()
    create_private_folder(file.parent)
    # A file that can't be written is reported now.
    with open(file, "ab", opener=open_private):
        pass
    return Recording(file=str(file), most_bytes=int(1e6 * options.record_megabytes))


def _print_address(
    served: PreparedVariant, url: str, as_json: bool, process: EndpointProcess | None = None
) -> None:
    if as_json:
        own = {"pid": process.pid} if process else {}
        click.echo(json.dumps({"url": url, "variant": served.variant, **own}))
    else:
        click.echo(f"{url}/invocations serves variant {served.variant}; Ctrl-C ends it")
        for name in served.members:
            click.echo(f"{url}/models/{name}/invoke")
    sys.stdout.flush()


def _wait_for_end(process: EndpointProcess, faults: Faults, reloader: Reloader | None) -> NoReturn:
    began = time.monotonic()
    while process.is_running:
        time.sleep(0.2)
        if reloader:
            reloader.poll()
        every = faults.kill_every_seconds
        if every and time.monotonic() - began > every:
            process.faults.kill("model server")
            began = time.monotonic()
    raise LaunchError("the endpoint's supervisor and all its processes have ended; see the log")
