"""Keys of environment files as pages name them: each is one that such a file has."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infra.parameters.environment import Environment
from infra.parameters.shape import type_at
from scripts.documentation.pages import Page

_KEY = re.compile(rf"({'|'.join(Environment.model_fields)})(\.\w+)+")
NO_PARAMETER = "extends"  # taken out of the file before it is read


def unknown(found: Sequence[Page]) -> list[str]:
    """A line for each key that no environment file takes, of blocks and of sentences."""
    named = [
        (page, line, key)
        for page in found
        for line, table in page.tables()
        for key in _keys(table, ())
    ]
    named += [
        (page, line, tuple(said.split(".")))
        for page in found
        for line, said in page.said()
        if _KEY.fullmatch(said) and not said.endswith(".toml")
    ]
    return [
        f"{page.name}:{line}: no environment file has the key {'.'.join(key)}"
        for page, line, key in named
        if key != (NO_PARAMETER,) and type_at(key) is None
    ]


def _keys(table: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, value in table.items():
        key = (*above, name)
        yield key
        if isinstance(value, dict):
            yield from _keys(value, key)
