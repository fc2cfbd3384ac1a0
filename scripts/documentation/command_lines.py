"""What a page tells its reader to type: each line is held to the program that would read it."""

import ast
import contextlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import click

from infra.parameters.loading import load
from infra.parameters.overrides import from_options, strangers
from scripts.documentation.pages import Command, Page, UnclearPageError
from servable.main import servable
from servable_local.aws.command import parser

# `servable …` as pages show it, read by the command's own parser.

PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*|.*…")  # ENV, FILE, SAVED_MODEL, local-…
NOTATION = re.compile(r"[\[\]]|…$|\.\.\.$")  # of a sentence: [ENV…]
# Parameters whose value is the name of an environment.
ENVIRONMENTS = ("environment", "names", "source")


class ServableLines:
    """Holds them to the environments of the project at `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: dict[str, set[str]] = {}

    def names(self, folder: str) -> set[str]:
        """Names of the environments in a folder; empty if there is no such folder."""
        if folder not in self._names:
            files = self._root / folder
            loaded = load(self._root, files) if files.is_dir() else []
            self._names[folder] = {one.name for one in loaded}
        return self._names[folder]

    def problems(self, command: Command, made: set[str]) -> Iterable[str]:
        """`made`: environments that the page itself tells its reader to make."""
        words = list(command.words[1:])
        if command.inline:
            return self._inline(words, made)
        return self._strict(words, made, whole=True)

    def _inline(self, words: list[str], made: set[str]) -> Iterator[str]:
        """In a sentence a command may lack its arguments; `a | b` are two of one group."""
        text = " ".join(words)
        head, *others = (part.split() for part in text.split(" | "))
        clean = [bare for one in head if (bare := NOTATION.sub("", one))]
        yield from self._strict(clean, made, whole=False)
        for other in others:
            yield from self._strict([*clean[:-1], *other], made, whole=False)

    def _strict(self, told: list[str], made: set[str], *, whole: bool) -> Iterator[str]:
        words, command = list(told), cast(click.Command, servable)
        while isinstance(command, click.Group):
            context = click.Context(command)
            try:  # its own options stand before the command's name
                words = command.make_parser(context).parse_args(words)[1]
            except click.UsageError as wrong:
                yield wrong.format_message()
                return
            name = words.pop(0) if words else ""
            found = command.get_command(context, name)
            if found is None:
                if whole or (name and not PLACEHOLDER.fullmatch(name)):
                    yield f"there is no command {name!r}; {', '.join(command.list_commands(context))}"
                return
            command = found
        context = click.Context(command)
        try:
            given, left, _ = command.make_parser(context).parse_args(words)
        except click.BadOptionUsage as wrong:
            if whole:  # a sentence may name an option without its value
                yield wrong.format_message()
            return
        except click.UsageError as wrong:
            yield wrong.format_message()
            return
        if left:
            yield f"too much: {' '.join(left)}"
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
            if (
                first != ".."
                and (self._root / first).exists()
                and not (self._root / value).exists()
            ):
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
        overrides = from_options({key: value})
        loaded = load(self._root, self._root / folder, overrides, "--set")
        lost = strangers(overrides, [one.name for one in loaded], "--set")
        yield from map(str, lost)
        yield from (str(finding) for one in loaded for finding in one.findings)
        if not equals:
            yield "not of the form KEY=VALUE"


def _given(value: object) -> bool:
    """Click says None, an empty tuple or its own mark for what is left out."""
    return isinstance(value, str | bool) and value is not False and value != ""


# `cdk …` as pages show it, held to what app.py and the environments take.

CDK_COMMANDS = ("bootstrap", "deploy", "destroy", "diff", "list", "synth")
# (option, takes a value): those of the CDK CLI that our pages use. https://docs.aws.amazon.com/cdk/v2/guide/cli.html
CDK_OPTIONS = {
    "-c": True,
    "--require-approval": True,
    "--bootstrap-customer-key": False,
    "--bootstrap-kms-key-id": True,
    "--profile": True,
    "--cloudformation-execution-policies": True,
    "--force": False,
}
CONTEXT = ("environments", "nag", "oidc-provider", "pipeline")  # the keys that app.py asks for


class CdkLines:
    """`names`: the environments of a folder."""

    def __init__(self, root: Path, names: Callable[[str], set[str]]) -> None:
        self._root, self._names = root, names

    def problems(self, command: Command, made: set[str]) -> Iterable[str]:
        words = list(command.words[1:])
        if (words.pop(0) if words else "") not in CDK_COMMANDS:
            yield f"not one of cdk's {', '.join(CDK_COMMANDS)}"
        folder, context, stacks = "environments", [], []
        while words:
            word = words.pop(0)
            if not word.startswith("-"):
                stacks.append(word.strip("'"))
            elif word not in CDK_OPTIONS:
                yield f"{word} is no option of cdk that these pages use"
            elif CDK_OPTIONS[word]:
                value = words.pop(0) if words else ""
                if word == "-c":
                    key, _, given = value.partition("=")
                    context.append((key, given))
                    folder = given if key == "environments" else folder
        if not (self._root / folder).is_dir():
            yield f"-c environments={folder}: there is no such folder"
        for key, given in context:
            yield from self._context(key, given, folder)
        names = self._names(folder) | made
        for stack in stacks:
            name = stack.removeprefix("pipeline-").partition("/")[0]
            if not re.fullmatch(r"\*\*|aws:|[A-Z]+", name) and name not in names:
                yield f"there is no environment {name!r}"

    def _context(self, key: str, given: str, folder: str) -> Iterable[str]:
        if key in CONTEXT or "KEY" in key or key.startswith("ENV."):
            return []
        if "." not in key:
            return [f"-c {key}: app.py does not ask for it"]
        overrides = from_options({key: given})
        loaded = load(self._root, self._root / folder, overrides)
        lost = strangers(overrides, [one.name for one in loaded], "-c")
        return [*map(str, lost), *(str(finding) for one in loaded for finding in one.findings)]


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
    "source": "of the shell",
}

Problems = Iterable[str]


class Lines:
    """Holds the commands of pages to the project at `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._targets = set(
            re.findall(r"^([a-z][a-z-]*):", (root / "Makefile").read_text(), re.MULTILINE)
        )
        self._servable = ServableLines(root)
        self._cdk = CdkLines(root, self._servable.names)
        self._checks: dict[str, Callable[[Command, Page], Problems]] = {
            "servable": lambda one, page: self._servable.problems(one, page.made),
            "servable-local": lambda one, page: self._local(one),
            "make": lambda one, page: self._make(one),
            "cdk": lambda one, page: self._cdk.problems(one, page.made),
            "python": lambda one, page: self._python(one),
            "python3": lambda one, page: self._python(one),
            "pip": lambda one, page: self._files(one),
            "pytest": lambda one, page: self._files(one),
        }

    def problems(self, found: Sequence[Page]) -> list[str]:
        return [one for page in found for one in self._of(page)]

    def _of(self, page: Page) -> Problems:
        try:
            commands = page.commands()
        except UnclearPageError as unclear:
            return [str(unclear)]
        return [
            f"{command.page}:{command.line}: `{' '.join(command.words)}`: {problem}"
            for command in commands
            for problem in self._one(command, page)
        ]

    def _one(self, command: Command, page: Page) -> Problems:
        if command.program in OTHERS:
            return ()
        check = self._checks.get(command.program)
        if check is None:
            return [
                f"{command.program} is not known; scripts/documentation says which are, and why"
            ]
        return check(command, page)

    def _local(self, command: Command) -> Problems:
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                parser().parse_args(command.words[1:])
        except SystemExit:
            # In a sentence it may lack its arguments.
            return [] if command.inline and len(command.words) < 2 else [said.getvalue().strip()]
        return []

    def _make(self, command: Command) -> Problems:
        named = [word for word in command.words[1:] if "=" not in word]
        return [f"make has no target {one}" for one in named if one not in self._targets]

    def _python(self, command: Command) -> Problems:
        option, *words = [*command.words[1:], ""]  # each option of ours takes one word
        if option == "-c":
            try:
                ast.parse(words[0])
            except SyntaxError as wrong:
                return [f"is no Python: {wrong}"]
        elif option == "-m":
            module = self._root / words[0].replace(".", "/")
            ours = (self._root / words[0].partition(".")[0]).is_dir()
            if (
                ours
                and not module.with_suffix(".py").is_file()
                and not (module / "__main__.py").is_file()
            ):
                return [f"there is no module {words[0]}"]
        elif not (self._root / option).is_file():
            return [f"there is no {option}"]
        return []

    def _files(self, command: Command) -> Problems:
        """Paths in the project: requirements and folders."""
        named = [
            word
            for word in command.words[1:]
            if word.startswith("./") or word.endswith(".txt") or word.startswith("tests/")
        ]
        return [f"there is no {one}" for one in named if not (self._root / one).exists()]


def programs() -> frozenset[str]:
    """Every program that a page may name."""
    return frozenset(
        {*OTHERS, "servable", "servable-local", "make", "cdk", "python", "python3", "pip", "pytest"}
    )
