"""The command `servable`: finds the subcommand and calls it.

Exit codes: 0 done, 1 problems were found, 2 the command could not do its work, 3 the verdict is
inconclusive, 130 interrupted (143 by SIGTERM, 129 by SIGHUP).
"""

import errno
import importlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from servable import __version__
from servable.console.extras import (
    build_unavailable_command,
    convert_import_error,
    find_missing_extra,
)
from servable.console.hidden import HiddenPackageError, reject_hidden_packages
from servable.console.signals import INTERRUPTED, compute_interrupt_code, raise_on_ctrl_c
from servable.console.terminal import escape_output
from servable.project.folder import find_project_folder

COMMANDS = {
    "check": "Check environments against every rule before you deploy them.",
    "package": "Pack an environment's models, and list the archive's content.",
    "plan": "Show what the next deploy of an environment changes, and how many deploys it needs.",
    "permissions": "Write the IAM policies that CloudFormation's execution role needs for environments.",
    "pin": "Write the hash and size of an environment's artifacts in S3 into its file.",
    "replay": "Send captured requests again, and keep the responses.",
    "rehearse": "Rehearse a day of traffic against the scaling policies of an environment.",
    "cost": "Show what an environment costs, and what a change to it would cost.",
    "init": "Write a first environment file for a SavedModel.",
    "new": "Create a project for a service: a folder with environments and workflows, without Python.",
    "doctor": "Check whether this computer and the AWS account are ready.",
    "golden": "Choose golden requests from captured ones.",
    "history": "List all deployments, or restore an earlier one.",
    "verify": "Compare the deployed resources with the last deployment.",
    "invoke": "Send one request to an environment's endpoint, in AWS or on this computer.",
    "openapi": "Print an OpenAPI description of the JSON that an endpoint accepts and returns.",
    "batch": "Run a table through an environment's model, in a transform job or on this computer.",
    "serve": "Serve an environment's endpoint on this computer.",
    "tune": "Search for an environment's best container settings.",
    "report": "Write the report page of a load or tune run, or of two runs side by side.",
    "load": "Measure how much load an environment sustains, step by step.",
    "local": "Start, show and stop the local AWS on this computer.",
}
# Each command is in servable/NAME/command.py.
# People type these first; `redirect` prints the commands of the programs that do them.
REDIRECTED = ("deploy", "destroy", "diff", "logs")
COULD_NOT = 2
# In messages and help; click's own message is "'x' is not a valid integer range".
click.IntRange.name, click.FloatRange.name = "integer", "number"


class _RedirectedError(click.ClickException):
    """The error for a command that another program provides; the message names that command."""

    exit_code = 2


def build_redirect_command(verb: str) -> click.Command:
    """Return a command that prints which program's command does `verb`, and exits with code 2."""
    # Imported here: other commands don't wait for them.
    from servable.project.completion import complete_environments
    from servable.project.environments import (
        Project,
        find_environment,
        format_stage_command,
        pass_project,
    )

    @click.command(verb, hidden=True, context_settings={"ignore_unknown_options": True})
    @click.argument("names", metavar="[ENV]...", nargs=-1, shell_complete=complete_environments)
    @pass_project
    def command(project: Project, names: tuple[str, ...]) -> None:
        """Print the command that does this, and exit with code 2."""
        # The other words are options of the CDK CLI and their values; people type prod/* too.
        name = names[0].removesuffix("/*") if names and not names[0].startswith("-") else None
        every = project.load_all(name)
        commands = []
        for loaded in every if name is None else [find_environment(every, name)]:
            if verb != "logs":
                overrides = loaded.overrides
                commands.append(
                    format_stage_command(
                        verb, loaded.name, folder=project.folder, overrides=overrides
                    )
                )
            elif loaded.draft is not None and loaded.draft.variants:
                group = f"/aws/sagemaker/Endpoints/{loaded.draft.endpoint.name}"
                commands.append(f"aws logs tail {group} --follow --region {loaded.draft.region}")
        what = f"{verb!r} is not a command of servable"
        if not commands:
            raise click.UsageError(f"{what}, and no environment here has an endpoint to run it for")
        lines = "".join(f"\n    {each}" for each in commands)
        raise _RedirectedError(
            f"{what}; instead, run{' one of these' if commands[1:] else ''}:{lines}"
        )

    return command


class LazyGroup(click.Group):
    """A group that imports a command only when it is called.

    For example, `check` imports nothing that only `local` needs.
    """

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in REDIRECTED:
            return build_redirect_command(cmd_name)
        if cmd_name in ("help", "version"):
            return show_help if cmd_name == "help" else show_version
        if cmd_name not in COMMANDS:
            return None
        if missing := find_missing_extra(cmd_name):
            return build_unavailable_command(cmd_name, COMMANDS[cmd_name], missing)
        module = importlib.import_module(f"servable.{cmd_name}.command")
        command: click.Command = getattr(module, cmd_name)
        raise_on_ctrl_c()  # everything that the command imports at its beginning is imported
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in sorted(COMMANDS) if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=COMMANDS[name]) for name in names]  # imports none
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    commands={name: click.Command(name, help=text) for name, text in COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False),
    metavar="FOLDER",
    help="Project folder, which contains environments/ (default: the project of the working folder).",
)
def servable(project: str | None) -> None:
    """TensorFlow models behind Amazon SageMaker endpoints, as code."""


@click.command("help", hidden=True)
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
def show_help(words: tuple[str, ...]) -> None:
    """Print the help of a command."""
    servable.main(args=[*words, "--help"], prog_name="servable", standalone_mode=False)


@click.command("version", hidden=True)
def show_version() -> None:
    """Print the version."""
    click.echo(f"servable {__version__}")


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line, and exit with the command's code.

    `arguments`: default: those of this process.
    """
    escape_output()
    words = {*(sys.argv[1:] if arguments is None else arguments)}
    local = _find_program_name(arguments) == "servable local"  # and not an environment of that name
    try:
        _run_and_exit(arguments)
    except BaseException as end:
        # `eval "$(servable local up)" && cdk deploy` must not deploy with the shell's own credentials.
        if local and not words & {"status", "down"} and getattr(end, "code", True):
            print("false")
        raise


def _run_and_exit(arguments: list[str] | None) -> Any:
    """Run the command and exit with its code.

    Usage errors and operating system errors become a message and exit code 2.
    """
    try:
        reject_hidden_packages()
        code = _run_command(arguments) or 0
        sys.exit(compute_interrupt_code() if code == INTERRUPTED else code)
    except click.ClickException as wrong:
        wrong.show()
        sys.exit(COULD_NOT)
    except HiddenPackageError as wrong:
        click.echo(str(wrong), err=True)
        sys.exit(COULD_NOT)
    except OSError as wrong:
        # A full disk or a read-only folder: the state of the computer, not a fault of the code.
        click.echo(f"{_find_program_name(arguments)}: {_describe_os_error(wrong)}", err=True)
        sys.exit(COULD_NOT)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(compute_interrupt_code())


def _run_command(arguments: list[str] | None) -> Any:
    """Return the command's result.

    Raises `MissingExtraError` instead of ModuleNotFoundError if an extra contains the module.
    """
    try:
        return servable.main(args=arguments, prog_name="servable", standalone_mode=False)
    except ModuleNotFoundError as missing:
        raise convert_import_error(missing, _find_program_name(arguments)) from None


def _find_program_name(arguments: list[str] | None) -> str:
    words = sys.argv[1:] if arguments is None else arguments
    return " ".join(["servable", *[word for word in words if word in COMMANDS][:1]])


def _describe_os_error(wrong: OSError) -> str:
    problem = f"{wrong.filename or 'a file or the output'}: {wrong.strerror or wrong}"
    if wrong.errno == errno.EFBIG:
        return f"{problem}; raise the limit on the size of files (ulimit -f), and run the command again"
    if wrong.errno not in (errno.ENOSPC, errno.EDQUOT):
        return problem
    # A write to an open file does not name it; commands write to these folders.
    folders = filter(Path.is_dir, (find_project_folder(), Path(os.environ.get("TMPDIR", "/tmp"))))
    free = [f"{shutil.disk_usage(each).free / 1e6:,.0f} MB in {each}" for each in folders]
    remedy = "make room there, or where the output goes, and run the command again"
    return f"{problem}; free: {', '.join(free)}; {remedy}"
