"""Links, headings, commands and keys on every page that people read: each must hold.

A command line is held to the program that would read it. python -m tests.docs.check_pages
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import click

from infra.parameters.environment import Environment
from infra.parameters.keys import find_type
from infra.parameters.loading import load
from infra.parameters.overrides import find_unknown_environments, from_options
from servable.main import servable
from tests.checkouts import ROOT
from tests.docs.pages import Command, Page, UnclearPageError, pages

# Parts of `servable …` as pages show it, which the command's own parser reads.
PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*|.*…")  # ENV, FILE, SAVED_MODEL, local-…
NOTATION = re.compile(r"[\[\]]|…$|\.\.\.$")  # of a sentence: [ENV…]
# Parameters whose value is the name of an environment.
ENVIRONMENTS = ("environment", "names", "source")

Problems = Iterator[str]
_KEY = re.compile(rf"({'|'.join(Environment.model_fields)})(\.\w+)+")

# Arguments and options of the CDK CLI that our pages use. https://docs.aws.amazon.com/cdk/v2/guide/cli.html
CDK_COMMANDS = ("bootstrap", "deploy", "destroy", "diff", "list", "synth")
_CDK_FLAGS = ("bootstrap-customer-key", "force", "revert-drift", "import-existing-resources")
_CDK_OPTIONS = (
    *("bootstrap-kms-key-id", "cloudformation-execution-policies", "profile", "require-approval"),
)
CDK = click.Command(
    "cdk",
    params=[
        click.Argument(["command"], metavar="COMMAND", type=click.Choice(CDK_COMMANDS)),
        click.Argument(["stacks"], nargs=-1),
        click.Option(["-c"], multiple=True),
        *(click.Option([f"--{name}"], is_flag=True) for name in _CDK_FLAGS),
        *(click.Option([f"--{name}"]) for name in _CDK_OPTIONS),
    ],
)
CONTEXT = ("environments", "nag", "oidc-provider", "pipeline", "registry-token")

# Programs that are not ours, and why a page may name them: nothing of ours can make them stale.
OTHERS = {
    "aws": "the AWS CLI, as any client of what is deployed",
    "cd": "of the shell",
    "echo": "of the shell",
    "eval": "of the shell; what stands in $(…) is looked at by itself",
    "git": "gets the repository",
    "mkdir": "of the shell",
    "npm": "installs package-lock.json",
    "npx": "starts the CDK CLI that npm installed",
    "sed": "edits a file, where a page changes one in a line",
    "export": "of the shell",
    "source": "of the shell",
    "uv": "installs the command; README's first commands are typed into an empty home",
}


class Lines:
    """Holds the commands of pages to the project at `root`, and to its environments."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: dict[str, set[str]] = {}
        makefile = (root / "Makefile").read_text()
        self._targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))

    def problems(self, found: Sequence[Page]) -> Iterator[str]:
        for page in found:
            try:
                commands, made = page.commands(), page.made
            except UnclearPageError as unclear:
                yield str(unclear)
                continue
            for command in commands:
                check = CHECKS.get(command.program, _unknown)
                for problem in () if command.program in OTHERS else check(self, command, made):
                    yield f"{command.page}:{command.line}: `{' '.join(command.words)}`: {problem}"

    def names(self, folder: str) -> set[str]:
        """Names of the environments in a folder; empty if there is no such folder."""
        if folder not in self._names:
            files = self._root / folder
            loaded = load(self._root, files) if files.is_dir() else []
            self._names[folder] = {one.name for one in loaded}
        return self._names[folder]

    def servable(self, command: Command, made: set[str]) -> Problems:
        """`made`: environments that the page itself tells its reader to make."""
        arguments = list(command.words[1:])
        if command.program == "servable-local":
            arguments = ["local", *arguments]  # whose commands and options it has
        several = [arguments]
        if command.inline:  # it may lack its arguments; `a | b` are two of one group
            head, *others = (part.split() for part in " ".join(arguments).split(" | "))
            first = [bare for word in head if (bare := NOTATION.sub("", word))]
            several = [first, *([*first[:-1], *other] for other in others)]
        for words in several:
            yield from self._strict(words, made, whole=not command.inline)

    def _strict(self, words: list[str], made: set[str], *, whole: bool) -> Iterator[str]:
        command = cast(click.Command, servable)
        context = click.Context(command)
        try:
            given, rest, _ = command.make_parser(context).parse_args([*words])
            while isinstance(command, click.Group):
                name = rest.pop(0) if rest else ""
                inner = command.get_command(context, name)
                if inner is None:
                    if whole or (name and not PLACEHOLDER.fullmatch(name)):
                        names = ", ".join(command.list_commands(context))
                        yield f"there is no command {name!r}; {names}"
                    return
                command, context = inner, click.Context(inner)
                given, rest, _ = command.make_parser(context).parse_args(rest)
        except click.UsageError as wrong:
            # A sentence may name an option without its value.
            if whole or not isinstance(wrong, click.BadOptionUsage):
                yield wrong.format_message()
            return
        if rest:
            yield f"too much: {' '.join(rest)}"
        yield from self._values(command, context, given, made, whole=whole)

    def _values(
        self, command: click.Command, context: click.Context, given: dict[str, Any],
        made: set[str], *, whole: bool,
    ) -> Iterator[str]:  # fmt: skip
        # Click says None, an empty tuple or its own mark for what is left out.
        folder = given.get("folder")
        folder = folder if isinstance(folder, str) and folder else "environments"
        if not (self._root / folder).is_dir():
            yield f"--environments {folder}: there is no such folder"
        for param in command.params:
            values = given.get(param.name or "")
            for value in values if isinstance(values, tuple | list) else [values]:
                if not isinstance(value, str | bool) or not value:
                    if whole and param.required:
                        yield f"{param.human_readable_name} is missing"
                elif not isinstance(value, str) or PLACEHOLDER.fullmatch(value):
                    continue
                elif param.name in ENVIRONMENTS:
                    if value not in self.names(folder) | made and "://" not in value:
                        yield f"there is no environment {value!r}"
                elif param.name == "sets":
                    yield from self._override(value, str(given.get("environment")), folder, made)
                elif isinstance(param.type, click.Path):
                    first = Path(value).parts[0]
                    ours = first != ".." and (self._root / first).exists()
                    if ours and not (self._root / value).exists():
                        yield f"there is no {value}"  # elsewhere it is the reader's own file
                else:
                    try:
                        param.type.convert(value, param, context)
                    except click.UsageError as wrong:
                        yield wrong.format_message()

    def _override(self, option: str, environment: str, folder: str, made: set[str]) -> Problems:
        key, equals, value = option.partition("=")
        name = key.partition(".")[0]
        if "KEY" in key or {name, environment} & made:
            return
        if name not in self.names(folder):  # `servable verify ENV --set KEY=VALUE`
            key = f"{environment}.{key}"
        yield from self._override_problems(folder, {key: value}, "--set")
        if not equals:
            yield "not of the form KEY=VALUE"

    def _override_problems(self, folder: str, values: dict[str, str], option: str) -> list[str]:
        overrides = from_options(values)
        loaded = load(self._root, self._root / folder, overrides, option)
        unused = find_unknown_environments(overrides, [one.name for one in loaded], option)
        findings = (finding for one in loaded for finding in one.findings)
        return [str(problem) for problem in (*unused, *findings)]

    def cdk(self, command: Command, made: set[str]) -> Problems:
        context = click.Context(CDK)
        try:
            CDK.parse_args(context, list(command.words[1:]))
        except click.UsageError as wrong:
            # A sentence may name an option without its value.
            if not (command.inline and isinstance(wrong, click.BadOptionUsage)):
                yield " ".join(wrong.format_message().split())
            return
        values = dict(option.partition("=")[::2] for option in context.params["c"])
        folder = values.get("environments", "environments")
        if not (self._root / folder).is_dir():
            yield f"-c environments={folder}: there is no such folder"
        for key, given in values.items():
            if key in CONTEXT or "KEY" in key or key.partition(".")[0] in {"ENV", *made}:
                continue
            if "." in key:
                yield from self._override_problems(folder, {key: given}, "-c")
            else:
                yield f"-c {key}: app.py does not ask for it"
        names = self.names(folder) | made
        for stack in context.params["stacks"]:
            name = stack.strip("'").removeprefix("pipeline-").partition("/")[0]
            if not re.fullmatch(r"\*\*|aws:|[A-Z]+", name) and name not in names:
                yield f"there is no environment {name!r}"

    def make(self, command: Command, made: set[str]) -> Problems:
        for name in command.words[1:]:
            if "=" not in name and name not in self._targets:
                yield f"make has no target {name}"

    def python(self, command: Command, made: set[str]) -> Problems:
        option, *words = [*command.words[1:], ""]  # each option of ours takes one word
        if option == "-c":
            try:
                ast.parse(words[0])
            except SyntaxError as wrong:
                yield f"is no Python: {wrong}"
        elif option == "-m":
            module = self._root / words[0].replace(".", "/")
            ours = (self._root / words[0].partition(".")[0]).is_dir()
            files = (module.with_suffix(".py"), module / "__main__.py")
            if ours and not any(file.is_file() for file in files):
                yield f"there is no module {words[0]}"
        elif not (self._root / option).is_file():
            yield f"there is no {option}"

    def files(self, command: Command, made: set[str]) -> Problems:
        """Paths in the project: requirements and folders."""
        for word in command.words:
            if re.search(r"^(\./|tests/)|\.txt$", word) and not (self._root / word).exists():
                yield f"there is no {word}"


def _unknown(lines: Lines, command: Command, made: set[str]) -> Problems:
    yield f"{command.program} is not known; tests/docs/check_pages.py says which are, and why"


CHECKS: Mapping[str, Callable[[Lines, Command, set[str]], Problems]] = {
    "servable": Lines.servable,
    "servable-local": Lines.servable,
    "make": Lines.make,
    "cdk": Lines.cdk,
    "python": Lines.python,
    "python3": Lines.python,
    "pip": Lines.files,
    "pytest": Lines.files,
}
# Every program that a page may name.
PROGRAMS = frozenset({*OTHERS, *CHECKS})


def unknown_keys(found: Sequence[Page]) -> list[str]:
    """A line for each key that no environment file takes, of blocks and of sentences."""
    named: list[tuple[Page, int, tuple[str, ...]]] = []
    for page in found:
        named += [(page, line, key) for line, table in page.tables() for key in _keys_of(table)]
        said = [one for one in page.said() if _KEY.fullmatch(one[1]) and one[1][-5:] != ".toml"]
        named += [(page, line, tuple(key.split("."))) for line, key in said]
    return [
        f"{page.name}:{line}: no environment file has the key {'.'.join(key)}"
        for page, line, key in named
        if key != ("extends",) and find_type(key) is None  # taken out of the file before it is read
    ]


def _keys_of(table: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in table.items() if isinstance(table, dict) else ():
        yield (*above, name)
        yield from _keys_of(value, (*above, name))


def broken_links(root: Path, found: Sequence[Page]) -> Iterator[str]:
    """A line for each. Addresses on the network are not asked."""
    anchors = {root.resolve() / page.name: page.anchors() for page in found}
    for page in found:
        for line, target in page.links():
            if "://" in target or target.startswith("mailto:"):
                continue
            path, _, anchor = target.partition("#")
            file = root / page.name
            file = (file.parent / path if path else file).resolve()
            if not file.exists():
                yield f"{page.name}:{line}: [{target}]: there is no such file"
            elif anchor and anchor not in anchors.get(file, ()):
                name = file.relative_to(root.resolve())
                yield f"{page.name}:{line}: [{target}]: {name} has no such heading"


def problems(root: Path) -> list[str]:
    """One line each, with page and line; none where all is well."""
    found = pages(root, PROGRAMS)
    return [*broken_links(root, found), *Lines(root).problems(found), *unknown_keys(found)]


if __name__ == "__main__":
    lines = problems(ROOT)
    print("\n".join(lines) or "no finding")
    sys.exit(bool(lines))
