"""Applies recommendations to an environment file, keeping every comment, and shows the diff."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit

from model_packaging.beside import write_atomically


@dataclass(frozen=True, kw_only=True)
class KeyChange:
    """A change of one key of the environment file. `value` is a TOML value or an item of tomlkit."""

    key: tuple[str, ...]
    value: Any
    reason: str


def apply_changes(text: str, changes: Sequence[KeyChange], *, note: str) -> str:
    """Return the file's text with these changes; `note`, their source, becomes the comment."""
    document: Any = tomlkit.parse(text)
    for change in changes:
        _apply_change(document, change, note)
    after = tomlkit.dumps(document)
    # A table that tomlkit appends has no blank line after it.
    return after if _CLOSE.search(text) else _CLOSE.sub("\n\n[", after)


_CLOSE = re.compile(r"(?<!\n)\n\[")


def format_diff(file: str, before: str, after: str) -> str:
    """Return the unified diff, or an empty text if nothing changes."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), file, file
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def write(file: Path, text: str) -> None:
    write_atomically(file, text.encode())


def _apply_change(document: Any, change: KeyChange, note: str) -> None:
    *tables, name = change.key
    table = document
    for depth, each in enumerate(tables):
        if each not in table:
            inline = depth > 0 and each == "batching"
            table[each] = tomlkit.inline_table() if inline else tomlkit.table()
        table = table[each]
    old = table.get(name)
    if change.value == old:
        return
    value = tomlkit.item(change.value)
    if isinstance(table, tomlkit.items.InlineTable):
        table[name] = value  # a comment has no place inside
        return
    trivia = getattr(old, "trivia", None)
    comment = trivia.comment.lstrip("# ") if trivia else ""
    value.comment(note if not comment or comment == note else f"{comment}; {note}")
    if trivia and trivia.comment:
        value.trivia.comment_ws = trivia.comment_ws
    table[name] = value
