"""`servable serve ENV`: serve the endpoint on this computer until Ctrl-C."""

import json
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from model_packaging.beside import private_folder, private_opener
from model_packaging.refusal import PackagingError
from servable.console.signals import as_ctrl_c
from servable.project.completion import ENVIRONMENT
from servable.project.environments import ENVIRONMENTS, SET, environment_with_endpoint, refused
from servable.project.provided import EndpointProcess, LaunchError, Recording
from servable.serve.reload import Reloader
from servable.serve.serve import Faults, PreparedVariant, prepared, serve_image, serve_locally

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Values of the options, each under its parameter's name."""

    variant: str | None
    archive: Path | None
    port: int
    docker: bool
    log: Path | None
    slow_ms: float
    fail_status: int
    full_queue: bool
    freeze: bool
    kill_every: float | None
    memory_limit_mib: int | None
    record: Path | None
    record_megabytes: float
    reload: bool
    as_json: bool


@click.command()
@ENVIRONMENT
@ENVIRONMENTS
@SET
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
    help="Port; 0 for any free one.",
)
@click.option("--docker", is_flag=True, help="Run the AWS image, which needs Docker and the image.")
@click.option(
    "--log", type=click.Path(path_type=Path), help="File for the container's log (default: stderr)."
)
@click.option(
    "--slow-ms", default=0.0, help="Fault injection: delay every prediction by this time."
)
@click.option(
    "--fail-status",
    default=0,
    help="Fault injection: answer every prediction with this HTTP status.",
)
@click.option("--full-queue", is_flag=True, help="Fault injection: keep the batching queue full.")
@click.option(
    "--freeze",
    is_flag=True,
    help="Fault injection: freeze the model servers; their ports stay open.",
)
@click.option(
    "--kill-every",
    type=float,
    metavar="S",
    help="Fault injection: kill the model servers every S seconds.",
)
@click.option(
    "--memory-limit-mib", type=int, help="Memory limit; above it the largest process is killed."
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Append requests and answers to FILE, as SageMaker's data capture does; for `servable replay`.",
)
@click.option(
    "--record-megabytes",
    type=click.FloatRange(0, min_open=True),
    default=100.0,
    show_default=True,
    help="Size at which the recording ends.",
)
@click.option(
    "--reload",
    is_flag=True,
    help="Apply each edit of the code, the model, or the environment file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def serve(environment: str, folder: str, sets: tuple[str, ...], **values: Any) -> int:
    """Serve ENV on 127.0.0.1 with the deployed container environment variables, until Ctrl-C."""
    options = ServeOptions(**values)
    loaded, _ = environment_with_endpoint(environment, folder, sets)
    if problems := refused(loaded):
        click.echo("\n".join(problems), err=True)
        return 1
    as_ctrl_c()
    began = time.time()
    try:
        served = prepared(loaded, variant=options.variant, archive=options.archive)
        if options.docker and options.record:
            raise click.UsageError("--record records the local container: leave out --docker")
        if options.reload and (options.docker or served.members):
            which = "--docker" if options.docker else "multi-model mode"
            raise click.UsageError(f"--reload doesn't work with {which}; leave out --reload")
        if options.docker:
            with serve_image(served, port=options.port) as container:
                _say(served, container.url, options.as_json)
                while container.running:
                    time.sleep(1.0)
            raise LaunchError("the container has ended")
        faults = Faults(
            slow_ms=options.slow_ms,
            fail_status=options.fail_status,
            full_queue=options.full_queue,
            freeze=options.freeze,
            kill_every_seconds=options.kill_every,
        )
        with serve_locally(
            served,
            port=options.port,
            log=options.log,
            memory_limit_mib=options.memory_limit_mib,
            faults=faults,
            record=_record(options),
        ) as process:
            _say(served, process.url, options.as_json, process)
            reloader = None
            if options.reload:
                load = partial(environment_with_endpoint, environment, folder, sets)
                reloader = Reloader(process, served, load, options.archive, began)
            _until_it_ends(process, faults, reloader)
    except (LaunchError, PackagingError) as error:
        click.echo(f"servable serve: {error}", err=True)
        return 1


def _record(options: ServeOptions) -> Recording | None:
    if options.record is None:
        return None
    file = options.record.absolute()
    private_folder(file.parent)
    # Asked for by name, so a folder that cannot be written to is named now.
    with open(file, "ab", opener=private_opener):
        pass
    return Recording(file=str(file), most_bytes=int(1e6 * options.record_megabytes))


def _say(
    served: PreparedVariant, url: str, as_json: bool, process: EndpointProcess | None = None
) -> None:
    if as_json:
        line: dict[str, Any] = {"url": url, "variant": served.variant}
        line |= {"pid": process.pid} if process else {}
        click.echo(json.dumps(line))
    else:
        click.echo(f"{url}/invocations serves variant {served.variant}; Ctrl-C ends it")
        for name in served.members:
            click.echo(f"{url}/models/{name}/invoke")
    sys.stdout.flush()


def _until_it_ends(process: EndpointProcess, faults: Faults, reloader: Reloader | None) -> NoReturn:
    began = time.monotonic()
    while process.running:
        time.sleep(0.2)
        if reloader:
            reloader.poll()
        every = faults.kill_every_seconds
        if every and time.monotonic() - began > every:
            process.faults.kill("model server")
            began = time.monotonic()
    raise LaunchError("the endpoint's supervisor has ended, and all its processes; see the log")
