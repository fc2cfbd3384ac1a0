"""The commands on pages: which test types each, and why some are not typed."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.checkouts import ROOT
from tests.docs import outputs, test_accepting_page
from tests.docs.command_lines import PROGRAMS
from tests.docs.pages import commands, pages
from tests.docs.test_readme import README
from tests.docs.test_tutorial import PICTURES, TYPED, typed

Words = tuple[str, ...]

# Programs of the shell; what they do is seen in the tutorial's test.
SHELL = ("cd", "echo", "eval", "export", "mkdir", "source")

_EXCEPTIONS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TYPED_BY: dict[str, str] = _EXCEPTIONS["typed_by"]
NOT_TYPED: dict[str, str] = _EXCEPTIONS["not_typed"]


def is_meant(pattern: str, command: str) -> bool:
    """Whether a line of the file is about the command; … stands for any text."""
    return re.fullmatch(re.escape(pattern).replace("…", ".*"), command) is not None


def on_pages() -> dict[Words, list[str]]:
    """{command: the places where it stands in a block}."""
    found: dict[Words, list[str]] = {}
    for page in pages(ROOT, PROGRAMS):
        for command in page.commands():
            if not command.inline and command.program not in SHELL:
                found.setdefault(command.words, []).append(f"{command.page}:{command.line}")
    return found


def _by_other_tests() -> Iterator[Words]:
    """The commands that the tests of the tutorial, the README, the ten steps, and outputs type."""
    for line in (*TYPED, *typed(PICTURES), *README, *test_accepting_page.read_lines()):
        yield from (words for _, words in commands(line))
    yield from outputs.typed()
    for shown in outputs.made_from_files():
        yield from (words for _, words in commands(shown.command))


def typed_here() -> list[Words]:
    """Those that no other test types, in an order in which each finds what it needs."""
    others = set(_by_other_tests())
    here = [
        words
        for words in on_pages()
        if words not in others
        and not any(is_meant(pattern, " ".join(words)) for pattern in TYPED_BY | NOT_TYPED)
        and not {"my-model", "my-model/*"} & set(words)  # the tutorial's, once more
    ]
    return sorted(here, key=lambda words: ("down" in words, "--write" in words))
