"""Commands that people type first and that `servable` leaves to other programs: deploy, logs, and so on.

Each prints the command that does the work, with the names of the project's environments.
"""

import click

from servable.project.cdk_cli import stage_command
from servable.project.completion import complete_environments
from servable.project.environments import ENVIRONMENTS, SET, loaded_with, named, project


class _RedirectedError(click.ClickException):
    """Another program does this; the message names its command."""

    exit_code = 2


def redirected(verb: str) -> click.Command:
    """Return a command that prints which other command does `verb`, and exits with code 2."""

    @click.command(verb, hidden=True, context_settings={"ignore_unknown_options": True})
    @click.argument("names", metavar="[ENV]...", nargs=-1, shell_complete=complete_environments)
    @ENVIRONMENTS
    @SET
    def command(names: tuple[str, ...], folder: str, sets: tuple[str, ...]) -> None:
        """Print the command that does this, and exit with code 2."""
        root, files = project(folder)
        # The other words are options of the CDK CLI and their values; people type prod/* too.
        name = names[0].removesuffix("/*") if names and not names[0].startswith("-") else None
        every = loaded_with(sets, root, files, name=name)
        chosen = every if name is None else [named(every, name)]
        commands = []
        for loaded in chosen:
            if verb != "logs":
                commands.append(
                    stage_command(verb, loaded.name, folder=folder, overrides=loaded.overrides)
                )
            elif loaded.draft is not None and loaded.draft.variants:
                group = f"/aws/sagemaker/Endpoints/{loaded.draft.endpoint.name}"
                commands.append(f"aws logs tail {group} --follow --region {loaded.draft.region}")
        what = f"{verb!r} is not a command of servable"
        if not commands:
            raise click.UsageError(f"{what}, and no environment here has anything for it")
        lines = "".join(f"\n    {each}" for each in commands)
        raise _RedirectedError(f"{what}; run{' one of these' if commands[1:] else ''}:{lines}")

    return command
