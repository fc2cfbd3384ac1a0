"""`servable serve ENV`: the endpoint on this machine, until Ctrl-C."""

import json
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import click

from model_packaging.refusal import PackagingError
from servable.project import ENVIRONMENTS, one_environment, refused
from servable.serve.container import Faults, serve_image, serve_locally
from servable.serve.serve import PreparedVariant, prepared
from servable.signals import as_ctrl_c
from servable_local.container.launch import EndpointProcess, LaunchError

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("environment", metavar="ENV")
@ENVIRONMENTS
@click.option("--variant", help="One of the environment's variants; left out, the first.")
@click.option("--archive", type=FILE, help="Serve this model.tar.gz in the place of a new one.")
@click.option(
    "--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="0: any."
)
@click.option("--docker", is_flag=True, help="The real image, where Docker and the image are.")
@click.option("--log", type=click.Path(path_type=Path), help="What the container says goes here.")
@click.option("--slow-ms", default=0.0, help="Trouble: every prediction takes so much longer.")
@click.option("--fail-status", default=0, help="Trouble: every prediction is answered this status.")
@click.option("--full-queue", is_flag=True, help="Trouble: the batching queue is always full.")
@click.option("--freeze", is_flag=True, help="Trouble: model servers stop, and keep their ports.")
@click.option("--kill-every", type=float, metavar="S", help="Trouble: model servers are killed.")
@click.option("--memory-limit-mib", type=int, help="Above it the largest process is killed.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def serve(environment: str, folder: str, **options: Any) -> int:
    """Serve what ENV deploys on 127.0.0.1, with the variables it is deployed with. Ctrl-C ends it."""
    loaded, _ = one_environment(environment, folder)
    if problems := refused(loaded):
        click.echo("\n".join(problems), err=True)
        return 1
    as_ctrl_c()
    try:
        served = prepared(loaded, variant=options["variant"], archive=options["archive"])
        if options["docker"]:
            with serve_image(served, port=options["port"]) as container:
                _say(served, container.url, options["as_json"])
                while container.running:
                    time.sleep(1.0)
            raise LaunchError("the container has ended")
        faults = Faults(
            slow_ms=options["slow_ms"],
            fail_status=options["fail_status"],
            full_queue=options["full_queue"],
            freeze=options["freeze"],
            kill_every_seconds=options["kill_every"],
        )
        with serve_locally(
            served,
            port=options["port"],
            log=options["log"],
            memory_limit_mib=options["memory_limit_mib"],
            faults=faults,
        ) as process:
            _say(served, process.url, options["as_json"], process)
            _until_it_ends(process, faults)
    except (LaunchError, PackagingError) as error:
        click.echo(f"servable serve: {error}", err=True)
        return 1


def _say(
    served: PreparedVariant, url: str, as_json: bool, process: EndpointProcess | None = None
) -> None:
    if as_json:
        line: dict[str, Any] = {"url": url, "variant": served.variant}
        line |= {"pid": process.pid} if process else {}
        click.echo(json.dumps(line))
    else:
        click.echo(f"{url}/invocations answers as {served.variant} would; Ctrl-C ends it")
        for name in served.members:
            click.echo(f"{url}/models/{name}/invoke")
    sys.stdout.flush()


def _until_it_ends(process: EndpointProcess, faults: Faults) -> NoReturn:
    began = time.monotonic()
    while process.running:
        time.sleep(0.2)
        every = faults.kill_every_seconds
        if every and time.monotonic() - began > every:
            process.faults.kill("model server")
            began = time.monotonic()
    raise LaunchError("the endpoint's supervisor has ended, and everything with it; see the log")
