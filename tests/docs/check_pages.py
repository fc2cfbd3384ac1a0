"""Links, headings, commands and keys on every page that people read: each must hold.

python -m tests.docs.check_pages
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from infra.parameters.environment import Environment
from infra.parameters.keys import find_type
from tests.checkouts import ROOT
from tests.docs.command_lines import PROGRAMS, Lines
from tests.docs.pages import Page, pages

_KEY = re.compile(rf"({'|'.join(Environment.model_fields)})(\.\w+)+")


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
