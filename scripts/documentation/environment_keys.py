"""Lines of environment files as pages show them: each key is one that such a file has."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infra.parameters.shape import type_at
from scripts.documentation.pages import Page

NO_PARAMETER = "extends"  # taken out of the file before it is read


def unknown(found: Sequence[Page]) -> list[str]:
    """A line for each key that no environment file takes."""
    return [
        f"{page.name}:{line}: no environment file has the key {'.'.join(key)}"
        for page in found
        for line, table in page.tables()
        for key in _keys(table, ())
        if key != (NO_PARAMETER,) and type_at(key) is None
    ]


def _keys(table: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, value in table.items():
        key = (*above, name)
        yield key
        if isinstance(value, dict):
            yield from _keys(value, key)
