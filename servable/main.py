"""`servable …`: parses and calls, holds no logic.

Exit codes: 0 done, 1 found problems, 2 wrong use, 130 interrupted.
"""

import importlib
import io
import sys
from typing import Any

import click

from servable.extras import explained, missing_for, without
from servable.hidden import HiddenPackageError, refuse_hidden

COMMANDS = {
    "check": "Every finding of the environments, before anything is deployed.",
    "package": "Pack the models of an environment, and say what went in.",
    "plan": "What the next deploy of an environment does, in how many deploys.",
    "pin": "Hold an environment's artifacts to what lies in S3 now.",
    "cost": "What an environment costs, and what a change costs.",
    "init": "A first environment file for a SavedModel.",
    "new": "A project for a service: a folder with environments, workflows, and no Python.",
    "doctor": "Is this machine ready, and the account?",
    "history": "What was deployed when, and the way back.",
    "verify": "Is what is live what was deployed?",
    "invoke": "One prediction from wherever an environment runs.",
    "serve": "The endpoint of an environment, on this machine.",
    "conformance": "Does a container or an endpoint answer as the image's own code did?",
    "tune": "Search the settings of an environment's container.",
    "report": "The page of a run of load or tune, or of two beside each other.",
    "load": "How much load an environment takes, step by step.",
    "local": "The embedded AWS on this machine.",
}
# Each in servable/NAME/command.py, but for:
ELSEWHERE = {"pin": "servable.package.pin"}


class Lazy(click.Group):
    """Imports a command when it is called: `check` must not wait for what only `local` needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if missing := missing_for(cmd_name):
            return without(cmd_name, COMMANDS[cmd_name], missing)
        module = importlib.import_module(ELSEWHERE.get(cmd_name, f"servable.{cmd_name}.command"))
        found: click.Command = getattr(module, cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=Lazy)
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False),
    metavar="FOLDER",
    help="The project, a folder with environments/ in it (default: the one that you are in).",
)
def servable(project: str | None) -> None:
    """TensorFlow models behind Amazon SageMaker endpoints, as code."""


def main(arguments: list[str] | None = None) -> Any:
    """The console script. Never a stack trace for a user's mistake."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that this terminal cannot show is shown escaped.
            stream.reconfigure(errors="backslashreplace")
    try:
        refuse_hidden()
        sys.exit(_run(arguments) or 0)
    except click.UsageError as wrong:
        wrong.show()
        sys.exit(2)
    except click.ClickException as wrong:
        wrong.show()
        sys.exit(wrong.exit_code)
    except HiddenPackageError as wrong:
        click.echo(str(wrong), err=True)
        sys.exit(2)
    except OSError as wrong:
        # A full disk, a folder that may not be written: the machine's state, and no mistake of ours.
        click.echo(f"{wrong.filename or 'output'}: {wrong.strerror or wrong}", err=True)
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)


def _run(arguments: list[str] | None) -> Any:
    """What the command returns. Raises `MissingExtraError` in the place of ModuleNotFoundError."""
    try:
        return servable.main(args=arguments, prog_name="servable", standalone_mode=False)
    except ModuleNotFoundError as missing:
        words = sys.argv[1:] if arguments is None else arguments
        name = next((word for word in words if word in COMMANDS), "")
        raise explained(missing, f"servable {name}") from None
