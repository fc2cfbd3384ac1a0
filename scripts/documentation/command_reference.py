"""docs/reference/commands.md: what every `servable COMMAND --help` says, word for word."""

from collections.abc import Iterator
from pathlib import Path

import click

from servable.main import COMMANDS, servable

COLUMNS = 100  # a page is not as wide as somebody's terminal

HEAD = Path(__file__).with_name("commands_head.md")


def page(group: click.Group = servable) -> str:
    """The page: commands in order, each with its help; a group's own commands after it."""
    table, sections = "| command | |\n|---|---|\n", ""
    for path, summary, text in _commands(group, group.name or ""):
        table += f"| [{path}](#{path.replace(' ', '-')}) | {summary} |\n"
        sections += f"\n## {path}\n\n```text\n{text}\n```\n"
    return HEAD.read_text(encoding="utf-8") + table + sections


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, str, str]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None  # the group has just named it
        whole = f"{path} {name}"
        context = click.Context(
            command,
            info_name=whole,
            terminal_width=COLUMNS,
            max_content_width=COLUMNS,
            color=False,
            help_option_names=["-h", "--help"],
        )
        # Click keeps the option of a command's first call, which may have had --help alone.
        command._help_option = None
        # The list of commands says it in the words of its own table.
        own = COMMANDS[name] if path == "servable" else command.get_short_help_str(COLUMNS)
        yield whole, own, command.get_help(context).rstrip()
        if isinstance(command, click.Group):
            yield from _commands(command, whole)
