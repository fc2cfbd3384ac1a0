"""What a page tells its reader to type: each line is held to the program that would read it."""

import argparse
import ast
import contextlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click

from infra.parameters.loading import load
from infra.parameters.overrides import from_options, strangers
from scripts.documentation.pages import Command, Page, UnclearPageError
from servable.main import servable

# `servable …` as pages show it, read by the command's own parser.

PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*|.*…")  # ENV, FILE, SAVED_MODEL, local-…
NOTATION = re.compile(r"[\[\]]|…$|\.\.\.$")  # of a sentence: [ENV…]
# Parameters whose value is the name of an environment.
ENVIRONMENTS = ("environment", "names", "source")

Problems = Iterable[str]
Parse = Callable[[Sequence[str]], argparse.Namespace]

# `cdk …` as pages show it, held to what app.py and the environments take.

CDK_COMMANDS = ("bootstrap", "deploy", "destroy", "diff", "list", "synth")
CONTEXT = ("environments", "nag", "oidc-provider", "pipeline")  # the keys that app.py asks for


def _cdk_parser() -> argparse.ArgumentParser:
    """Options of the CDK CLI that our pages use. https://docs.aws.amazon.com/cdk/v2/guide/cli.html"""
    parser = argparse.ArgumentParser(prog="cdk", allow_abbrev=False)
    parser.add_argument("command", choices=CDK_COMMANDS)
    parser.add_argument("stacks", nargs="*")
    parser.add_argument("-c", action="append", default=[])
    for option in ("--bootstrap-customer-key", "--force"):
        parser.add_argument(option, action="store_true")
    policies = "--cloudformation-execution-policies"
    for option in ("--require-approval", "--bootstrap-kms-key-id", "--profile", policies):
        parser.add_argument(option)
    return parser


def parsed(parse: Parse, words: Sequence[str]) -> argparse.Namespace | str:
    """The words as a parser of argparse reads them, or what it says is wrong with them."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            return parse(words)
    except SystemExit:
        return errors.getvalue().strip().splitlines()[-1]


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
}


def _given(value: object) -> bool:
    """Click says None, an empty tuple or its own mark for what is left out."""
    return isinstance(value, str | bool) and value is not False and value != ""


class Lines:
    """Holds the commands of pages to the project at `root`, and to its environments."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: dict[str, set[str]] = {}
        self._targets = set(
            re.findall(r"^([a-z][a-z-]*):", (root / "Makefile").read_text(), re.MULTILINE)
        )
        self._checks: dict[str, Callable[[Command, set[str]], Problems]] = {
            "servable": self._servable,
            "servable-local": self._local,
            "make": self._make,
            "cdk": self._cdk,
            "python": self._python,
            "python3": self._python,
            "pip": self._files,
            "pytest": self._files,
        }

    def problems(self, found: Sequence[Page]) -> Iterator[str]:
        for page in found:
            try:
                commands, made = page.commands(), page.made
            except UnclearPageError as unclear:
                yield str(unclear)
                continue
            for command in commands:
                check = self._checks.get(command.program, _unknown)
                for problem in () if command.program in OTHERS else check(command, made):
                    yield f"{command.page}:{command.line}: `{' '.join(command.words)}`: {problem}"

    def names(self, folder: str) -> set[str]:
        """Names of the environments in a folder; empty if there is no such folder."""
        if folder not in self._names:
            files = self._root / folder
            loaded = load(self._root, files) if files.is_dir() else []
            self._names[folder] = {one.name for one in loaded}
        return self._names[folder]

    def _servable(self, command: Command, made: set[str]) -> Iterable[str]:
        """`made`: environments that the page itself tells its reader to make."""
        if not command.inline:
            yield from self._strict(list(command.words[1:]), made, whole=True)
            return
        # In a sentence a command may lack its arguments; `a | b` are two of one group.
        head, *others = (part.split() for part in " ".join(command.words[1:]).split(" | "))
        first = [bare for word in head if (bare := NOTATION.sub("", word))]
        for words in (first, *([*first[:-1], *other] for other in others)):
            yield from self._strict(words, made, whole=False)

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
        except click.BadOptionUsage as wrong:
            if whole:  # a sentence may name an option without its value
                yield wrong.format_message()
            return
        except click.UsageError as wrong:
            yield wrong.format_message()
            return
        if rest:
            yield f"too much: {' '.join(rest)}"
        yield from self._values(command, context, given, made, whole=whole)

    def _values(
        self, command: click.Command, context: click.Context, told: dict[str, Any],
        made: set[str], *, whole: bool,
    ) -> Iterator[str]:  # fmt: skip
        folder = told["folder"] if _given(told.get("folder")) else "environments"
        if not (self._root / folder).is_dir():
            yield f"--environments {folder}: there is no such folder"
        for param in command.params:
            values = told.get(param.name or "")
            for value in values if isinstance(values, tuple | list) else [values]:
                if not _given(value):
                    if whole and param.required:
                        yield f"{param.human_readable_name} is missing"
                elif not isinstance(value, str) or PLACEHOLDER.fullmatch(value):
                    continue
                elif param.name in ENVIRONMENTS:
                    if value not in self.names(folder) | made and "://" not in value:
                        yield f"there is no environment {value!r}"
                elif param.name == "sets":
                    yield from self._override(value, str(told.get("environment")), folder, made)
                else:
                    yield from self._value(param, context, value)

    def _value(self, param: click.Parameter, context: click.Context, value: str) -> Iterator[str]:
        if isinstance(param.type, click.Path):
            first = Path(value).parts[0]
            ours = first != ".." and (self._root / first).exists()
            if ours and not (self._root / value).exists():
                yield f"there is no {value}"  # elsewhere it is the reader's own file
            return
        try:
            param.type.convert(value, param, context)
        except click.UsageError as wrong:
            yield wrong.format_message()

    def _override(
        self, option: str, environment: str, folder: str, made: set[str]
    ) -> Iterator[str]:
        key, equals, value = option.partition("=")
        name = key.partition(".")[0]
        if "KEY" in key or name in made:
            return
        if name not in self.names(folder):  # `servable verify ENV --set KEY=VALUE`
            key = f"{environment}.{key}"
        yield from self._override_problems(folder, {key: value}, "--set")
        if not equals:
            yield "not of the form KEY=VALUE"

    def _override_problems(self, folder: str, values: dict[str, str], option: str) -> list[str]:
        overrides = from_options(values)
        loaded = load(self._root, self._root / folder, overrides, option)
        unused = strangers(overrides, [environment.name for environment in loaded], option)
        findings = (finding for environment in loaded for finding in environment.findings)
        return [str(problem) for problem in (*unused, *findings)]

    def _cdk(self, command: Command, made: set[str]) -> Iterable[str]:
        options = parsed(_cdk_parser().parse_intermixed_args, command.words[1:])
        if isinstance(options, str):
            # A sentence may name an option without its value.
            if not (command.inline and options.endswith("expected one argument")):
                yield options
            return
        context = dict(option.partition("=")[::2] for option in options.c)
        folder = context.get("environments", "environments")
        if not (self._root / folder).is_dir():
            yield f"-c environments={folder}: there is no such folder"
        for key, given in context.items():
            yield from self._context(key, given, folder)
        names = self.names(folder) | made
        for stack in options.stacks:
            name = stack.strip("'").removeprefix("pipeline-").partition("/")[0]
            if not re.fullmatch(r"\*\*|aws:|[A-Z]+", name) and name not in names:
                yield f"there is no environment {name!r}"

    def _context(self, key: str, given: str, folder: str) -> Iterable[str]:
        if key in CONTEXT or "KEY" in key or key.startswith("ENV."):
            return []
        if "." not in key:
            return [f"-c {key}: app.py does not ask for it"]
        return self._override_problems(folder, {key: given}, "-c")

    def _local(self, command: Command, made: set[str]) -> Iterable[str]:
        """`servable-local` has the commands and options of `servable local`."""
        words = ("servable", "local", *command.words[1:])
        return self._servable(replace(command, words=words), made)

    def _make(self, command: Command, made: set[str]) -> Problems:
        named = [word for word in command.words[1:] if "=" not in word]
        return [f"make has no target {name}" for name in named if name not in self._targets]

    def _python(self, command: Command, made: set[str]) -> Problems:
        option, *words = [*command.words[1:], ""]  # each option of ours takes one word
        if option == "-c":
            try:
                ast.parse(words[0])
            except SyntaxError as wrong:
                return [f"is no Python: {wrong}"]
        elif option == "-m":
            module = self._root / words[0].replace(".", "/")
            ours = (self._root / words[0].partition(".")[0]).is_dir()
            files = (module.with_suffix(".py"), module / "__main__.py")
            if ours and not any(file.is_file() for file in files):
                return [f"there is no module {words[0]}"]
        elif not (self._root / option).is_file():
            return [f"there is no {option}"]
        return []

    def _files(self, command: Command, made: set[str]) -> Problems:
        """Paths in the project: requirements and folders."""
        files = [word for word in command.words if re.search(r"^(\./|tests/)|\.txt$", word)]
        return [f"there is no {file}" for file in files if not (self._root / file).exists()]


def _unknown(command: Command, made: set[str]) -> Problems:
    return [f"{command.program} is not known; scripts/documentation says which are, and why"]


def programs() -> frozenset[str]:
    """Every program that a page may name."""
    return frozenset(
        {*OTHERS, "servable", "servable-local", "make", "cdk", "python", "python3", "pip", "pytest"}
    )
