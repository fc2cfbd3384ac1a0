"""The lines of a TOML file that set its keys, which tomllib does not keep."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra.parameters.sources import KeyPath


def line_number(file: Path, key: str) -> int | None:
    """Return the line of a dotted key, or of the nearest table around it; None if neither is there."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):  # an option, which gave the value; a file that is no text
        return None
    numbers, path = _numbers(text), tuple(key.split("."))
    return next(
        (numbers[path[:end]] for end in range(len(path), 0, -1) if path[:end] in numbers), None
    )


def _numbers(text: str) -> dict[KeyPath, int]:
    numbers: dict[KeyPath, int] = {}
    header, statement, begin = "", "", 1
    for number, line in enumerate(text.split("\n"), start=1):  # splitlines knows other ends of lines
        statement += f"{line}\n"
        heads = statement.lstrip().startswith("[")
        try:
            values = tomllib.loads(statement if heads else header + statement)
        except tomllib.TOMLDecodeError:
            continue  # it goes on in the next line
        header = statement if heads else header
        for path in _paths(values):
            numbers.setdefault(path, begin)
        statement, begin = "", number + 1
    return numbers


def _paths(values: dict[str, Any], at: KeyPath = ()) -> Iterator[KeyPath]:
    for name, value in values.items():
        yield (*at, name)
        if isinstance(value, dict):
            yield from _paths(value, (*at, name))
