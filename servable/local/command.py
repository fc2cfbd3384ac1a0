"""`servable local up | status | down`: the local AWS, for cdk, boto3 and the AWS CLI."""

import sys

import click

from servable.project_folder import state_folder
from servable_local.aws import LocalAwsStartError
from servable_local.aws.clock import SECONDS_PER_MINUTE
from servable_local.aws.command import DONE, FOUND_PROBLEMS, shown, started, stopped

_PROGRAM = "servable local"


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
        click.echo(
            started(
                _PROGRAM,
                port=port,
                minute=minute,
                containers=containers,
                folder=state_folder(),
                as_json=as_json,
            )
        )
    except LocalAwsStartError as error:
        click.echo(f"servable local up: {error}", err=True)
        sys.exit(FOUND_PROBLEMS)


@local.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status_command(as_json: bool) -> None:
    """Show whether the local AWS runs, and where. Exit code 1 if it does not."""
    text, runs = shown(_PROGRAM, folder=state_folder(), as_json=as_json)
    click.echo(text)
    sys.exit(DONE if runs else FOUND_PROBLEMS)


@local.command("down")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def down_command(as_json: bool) -> None:
    """Stop the local AWS, and delete all that is deployed to it."""
    click.echo(stopped(folder=state_folder(), as_json=as_json))
