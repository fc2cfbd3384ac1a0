"""`servable local up | status | down`: the local AWS, for cdk, boto3 and the AWS CLI."""

import json
import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any

import click

from servable.project_folder import state_folder
from servable_local.aws import LocalAws, LocalAwsStartError, down, status, up
from servable_local.aws.clock import SECONDS_PER_MINUTE

DONE, FOUND_PROBLEMS = 0, 1


@click.group()
def local() -> None:
    """Start, show and stop the local AWS, to which the real CDK CLI can deploy."""


@local.command("up")
@click.option("--port", default=0, show_default="any free one", type=click.IntRange(0, 65535))
@click.option(
    "--minute",
    default=SECONDS_PER_MINUTE,
    show_default=True,
    type=click.FloatRange(0.1, 60.0),
    help="Duration of one minute of alarms and deployments, in seconds.",
)
@click.option(
    "--containers",
    default=1,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Maximum number of containers per variant; further instances are only counted.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def up_command(port: int, minute: float, containers: int, as_json: bool) -> None:
    """Start the local AWS, unless it runs already. It runs until `servable local down`."""
    try:
        aws = up(
            port=port,
            folder=state_folder(),
            seconds_per_minute=minute,
            most_containers=containers,
        )
    except LocalAwsStartError as error:
        click.echo(f"servable local up: {error}", err=True)
        sys.exit(FOUND_PROBLEMS)
    if aws.already_up and minute not in (SECONDS_PER_MINUTE, aws.seconds_per_minute):
        click.echo(
            f"servable local up: the local AWS already runs at {aws.url} (process {aws.pid}) with a "
            f"minute of {aws.seconds_per_minute:g} s; "
            f"run `servable local down` first to get one of {minute:g} s",
            err=True,
        )
        sys.exit(FOUND_PROBLEMS)
    if port and aws.port != port:
        click.echo(
            f"servable local up: the local AWS already runs at {aws.url} (process {aws.pid}); "
            f"run `servable local down` first to get port {port}",
            err=True,
        )
        sys.exit(FOUND_PROBLEMS)
    if as_json:
        _echo_json(_described(aws) | {"already_up": aws.already_up})
        return
    already = ", already up" if aws.already_up else ""
    click.echo(f"# local AWS at {aws.url}, process {aws.pid}{already}")
    click.echo(f"# one minute of its alarms and deployments lasts {aws.seconds_per_minute:g} s")
    click.echo(_for_the_shell(aws))


@local.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status_command(as_json: bool) -> None:
    """Show whether the local AWS runs, and where. Exit code 1 if it does not."""
    aws = status(folder=state_folder())
    if as_json:
        _echo_json({"up": False} if aws is None else {"up": True} | _described(aws))
    elif aws is None:
        click.echo("local AWS: not running; `servable local up` starts it")
    else:
        click.echo(f"# local AWS at {aws.url}, process {aws.pid}, since {aws.started}")
        click.echo(_for_the_shell(aws))
    sys.exit(FOUND_PROBLEMS if aws is None else DONE)


@local.command("down")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def down_command(as_json: bool) -> None:
    """Stop the local AWS with all its endpoints, and delete everything deployed to it."""
    ended = down(folder=state_folder())
    if as_json:
        _echo_json({"ended": ended})
    else:
        there = "stopped" if ended else f"not running for {state_folder().parent}"
        click.echo(f"local AWS: {there}")


def _described(aws: LocalAws) -> dict[str, Any]:
    return {
        "url": aws.url,
        "port": aws.port,
        "pid": aws.pid,
        "started": aws.started,
        "seconds_per_minute": aws.seconds_per_minute,
        "environment": aws.environment(),
    }


def _for_the_shell(aws: LocalAws) -> str:
    """Return lines to paste or to `eval`; every other printed line is a comment."""
    lines = [
        '# paste these, or eval "$(servable local up)": cdk, boto3 and aws then use the local AWS'
    ]
    given = aws.environment()
    lines += [f"unset {name}" for name in sorted(os.environ) if _stands_in_the_way(name, given)]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in given.items()]
    return "\n".join(lines)


def _stands_in_the_way(name: str, given: Mapping[str, str]) -> bool:
    """Whether clients would read this variable before ours, or send it with our key."""
    whole = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN")
    others = ("AWS_ENDPOINT_URL_", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
    return name not in given and (name in whole or name.startswith(others))


def _echo_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))
