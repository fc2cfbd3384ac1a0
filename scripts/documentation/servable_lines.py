"""`servable …` as pages show it, read by the command's own parser."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import click

from infra.parameters.loading import load
from infra.parameters.overrides import from_options, strangers
from scripts.documentation.pages import Command
from servable.main import servable

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
        """Of the environments in a folder; none where there is no such folder."""
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
            name = words.pop(0) if words else ""
            context = click.Context(command)
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
            if (self._root / first).exists() and not (self._root / value).exists():
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
        yield from (str(found) for one in loaded for found in one.findings)
        if not equals:
            yield "not of the form KEY=VALUE"


def _given(value: object) -> bool:
    """Click says None, an empty tuple or its own mark for what is left out."""
    return isinstance(value, str | bool) and value is not False and value != ""
