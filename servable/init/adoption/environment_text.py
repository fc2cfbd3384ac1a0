"""The text of an environment file for a live endpoint: its keys, and as comments what is not in it."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import tomlkit

from servable.console.terminal import escaped_name
from servable.init.adoption.expressed import Expressed
from servable.init.adoption.live_fields import NotCarried

EFFECTS = {
    "lost": "Not carried over",
    "changed": "Otherwise than live",
    "none": "Alike in effect, or kept outside the file",
}
_COLUMNS = 100


def environment_text(expressed: Expressed, *, source: str) -> str:
    """Return the file. `source`: what it was written from, for example endpoint ranker."""
    document = tomlkit.document()
    for line in (
        ":schema ./schema.json",
        f" Written by `servable init` from {escaped_name(source)}. What it does not say is listed last.",
        " schema.json has every key; `servable check --explain` shows what is chosen for the rest.",
    ):
        document.add(tomlkit.comment(line.removeprefix(" ")) if line[0] == " " else _raw(line))
    for key, value in expressed.tables.items():
        document.add(key, tomlkit.item(_ordered(value)))
    return (
        tomlkit.dumps(document).rstrip()
        + "\n\n"
        + "\n".join(_comments(expressed.not_carried))
        + "\n"
    )


def _raw(line: str) -> Any:
    comment = tomlkit.comment(line)
    comment.trivia.comment = f"#{line}"
    return comment


def _ordered(value: Any) -> Any:
    """Plain values first: in TOML they may not come after a table."""
    if not isinstance(value, dict):
        return value
    ordered = {key: _ordered(inner) for key, inner in value.items()}
    return dict(sorted(ordered.items(), key=lambda item: isinstance(item[1], dict)))


def _comments(not_carried: Sequence[NotCarried]) -> Iterator[str]:
    for effect, heading in EFFECTS.items():
        rows = [row for row in not_carried if row.effect == effect]
        if rows:
            yield f"# {heading}:"
        for row in rows:
            text = escaped_name(str(row).replace("\n", " "))  # a live name may hold any character
            yield from textwrap.wrap(
                text, _COLUMNS, initial_indent="# - ", subsequent_indent="#   ",
                break_long_words=False, break_on_hyphens=False)  # fmt: skip
