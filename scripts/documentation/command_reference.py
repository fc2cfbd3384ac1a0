"""docs/commands.md: what every `servable COMMAND --help` says, word for word."""

from collections.abc import Iterator

import click

from servable.main import COMMANDS, servable

COLUMNS = 100  # a page is not as wide as somebody's terminal

HEAD = """\
# Every command

For whoever types a command: the help of each, word for word. Generated from `servable COMMAND --help` by
`python scripts/generate.py`; do not edit.

What people read goes to stdout and problems to stderr; `--json` is for programs. A verdict has three values,
and the exit code says which: [verdicts.md](verdicts.md) says what each verdict looks at and how often it is wrong.

| exit code | for a verdict | for any command |
|---|---|---|
| 0 | holds | done |
| 1 | does not hold | it found problems |
| 2 | | wrong use, or it could not do its work: a file, AWS, a container |
| 3 | cannot be told; the output names what is missing | |
| 130 | | interrupted; 143 by SIGTERM, 129 by SIGHUP |

Commands without a verdict (`init`, `invoke`, `new`, `package`, `pin`, `report`, `serve`) end with 1 also where they could not
do their work.

| command | 0 | 1 | 3 |
|---|---|---|---|
| `check` | no finding is an error | one is | |
| `check --run` | the models load and answer | one does not | an environment was not run, or without an answer to compare with |
| `conformance` | every answer is the image's, or excused | one is not, or a part of the contract is broken | models or code of the requests are missing |
| `doctor` | nothing is in the way | something is | AWS did not answer a check |
| `golden` | requests were chosen | none can be a golden one | |
| `load` | every step was measured | a step has no valid measurement | |
| `load --gate` | the objective is met, at 99 % confidence | it is not | too few requests |
| `plan` | nothing changes, or one deploy does it | two deploys, a deletion, or refused | |
| `rehearse` | no minute was outside of the objective | one was | |
| `replay` | all requests were answered; `--gate`: within the limits | one failed; a limit is exceeded | |
| `tune` | the search ended | | |
| `verify` | as deployed, and each variant answered as known | a difference | as deployed, answers not asked |

"""


def page(group: click.Group = servable) -> str:
    """Its commands in order, each with its help; a group's own commands after it."""
    table, sections = "| command | |\n|---|---|\n", ""
    for path, summary, text in _commands(group, group.name or ""):
        table += f"| [{path}](#{path.replace(' ', '-')}) | {summary} |\n"
        sections += f"\n## {path}\n\n```text\n{text}\n```\n"
    return HEAD + table + sections


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
        # Click keeps the option of a command's first call in this process, which may have had --help alone.
        command._help_option = None
        # The list of commands says it in the words of its own table.
        own = COMMANDS[name] if path == "servable" else command.get_short_help_str(COLUMNS)
        yield whole, own, command.get_help(context).rstrip()
        if isinstance(command, click.Group):
            yield from _commands(command, whole)
