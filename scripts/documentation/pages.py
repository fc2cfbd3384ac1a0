"""The pages that people read: their headings, links and commands, by a Markdown parser."""

import ast
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

PATTERNS = ("*.md", "docs/*.md", "docs/decisions/*.md", "examples/*/README.md")
DECISIONS = "docs/decisions/"  # what was meant on a day; its commands may be gone
SHELLS = ("sh", "console")
# What no command of ours stands in: each kind is checked elsewhere, or is somebody's words.
OTHER_KINDS = ("python", "toml", "json", "yaml", "text")
PROMPT = "$ "


class Unclear(Exception):
    """A block of which nobody can tell what it is. `str()` says what to do."""


@dataclass(frozen=True)
class Command:
    """One command as a page shows it. `words`: as a shell splits them."""

    page: str
    line: int
    words: tuple[str, ...]
    inline: bool = False

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2]


@dataclass(frozen=True)
class Link:
    page: str
    line: int
    target: str


class Page:
    """One file, parsed once. `programs`: what an unlabelled block of commands may begin with."""

    def __init__(self, root: Path, name: str, programs: frozenset[str]) -> None:
        self.name = name
        self._programs = programs
        text = (root / name).read_text(encoding="utf-8")
        self._tokens = MarkdownIt("commonmark").enable("table").parse(text)

    def anchors(self) -> set[str]:
        """As GitHub makes them of the headings."""
        found: set[str] = set()
        seen: Counter[str] = Counter()
        for before, after in pairwise(self._tokens):
            if before.type == "heading_open":
                words = "".join(one.content for one in after.children or ())
                slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
                found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
                seen[slug] += 1
        return found

    def links(self) -> list[Link]:
        """Every link and picture, addresses elsewhere included."""
        found = []
        for line, child in self._inline():
            target = child.attrGet("href") or child.attrGet("src")
            if child.type in ("link_open", "image") and isinstance(target, str):
                found.append(Link(self.name, line, target))
        return found

    def commands(self) -> list[Command]:
        """Of blocks and of code inside sentences. Raises `Unclear`."""
        if self.name.startswith(DECISIONS):
            return []
        found = [one for token in self._tokens for one in self._block(token)]
        for line, child in self._inline():
            words = tuple(child.content.split())
            if child.type == "code_inline" and len(words) > 1 and words[0] in _SAID_INLINE:
                found.append(Command(self.name, line, words, inline=True))
        return found

    @property
    def made(self) -> set[str]:
        """Environments that this page's own commands make, by `servable init`."""
        found = set()
        for one in self.commands():
            if one.program == "servable" and one.words[1:2] == ("init",):
                told = one.words[2:]
                named = [b for a, b in pairwise(told) if a == "--name"]
                found |= set(named) or {Path(told[0]).name.replace("_", "-")}
        return found

    def _inline(self) -> Iterator[tuple[int, Token]]:
        for token in self._tokens:
            for child in token.children or ():
                yield (token.map or [0])[0] + 1, child

    def _block(self, token: Token) -> Iterator[Command]:
        if token.type not in ("fence", "code_block") or not self._is_shell(token):
            return
        line = (token.map or [0])[0] + 1 + (token.type == "fence")
        text = token.content
        if token.info == "console":  # answers stand between the commands
            text = "\n".join(
                one.removeprefix(PROMPT) * (one[:2] == PROMPT) for one in text.split("\n")
            )
        for at, written in _whole_lines(text):
            for words in _commands(written):
                yield Command(self.name, line + at, words)

    def _is_shell(self, token: Token) -> bool:
        if token.info:
            if token.info not in SHELLS + OTHER_KINDS:
                raise Unclear(self._where(token, f"a block of {token.info!r}"))
            return token.info in SHELLS
        first = next(iter(token.content.split()), "").rpartition("/")[2]
        if first in self._programs:
            return True
        if not _is_toml(token.content) and not _is_python(token.content):
            raise Unclear(self._where(token, "neither TOML, Python nor commands"))
        return False

    def _where(self, token: Token, problem: str) -> str:
        return (
            f"{self.name}:{(token.map or [0])[0] + 1}: {problem}; "
            f"fence it as one of {', '.join(SHELLS + OTHER_KINDS)}"
        )


_SAID_INLINE = ("servable", "make", "cdk")


def pages(root: Path, programs: frozenset[str]) -> list[Page]:
    found = sorted({file for pattern in PATTERNS for file in root.glob(pattern)})
    return [Page(root, file.relative_to(root).as_posix(), programs) for file in found]


def _whole_lines(text: str) -> Iterator[tuple[int, str]]:
    """(its first line from 0, a command's whole text, joined where a backslash ends a line)."""
    begun: list[str] = []
    for at, line in enumerate(text.splitlines()):
        begun.append(line.removesuffix("\\"))
        if not line.endswith("\\"):
            yield at - len(begun) + 1, " ".join(begun)
            begun = []


def _commands(written: str) -> Iterator[tuple[str, ...]]:
    """What a shell would run: parts of a pipe, and what stands in $(…), each by itself."""
    lexer = shlex.shlex(written, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set("|&;<>()"):
            # What follows > is a file, and is no command.
            if words and not _is_file_of_redirection(words):
                yield tuple(words)
            words = [">"] if ">" in word else []
        else:
            for inner in re.findall(r"\$\(([^)]*)\)", word):
                yield from _commands(inner)
            if words or not re.fullmatch(r"\w+=.*", word):  # NAME=value before a program
                words.append(word)


def _is_file_of_redirection(words: list[str]) -> bool:
    return words[0] == ">"


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
