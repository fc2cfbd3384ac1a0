"""The pages that people read: their headings, links and commands, by a Markdown parser."""

import ast
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token


def commands(text: str, *, with_answers: bool = False) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line from 0, words). `with_answers`: only what follows a prompt is a command.

    Raises ValueError for quotes that nobody closes.
    """
    if with_answers:
        text = "\n".join(line[2:] if line.startswith("$ ") else "" for line in text.splitlines())
    begun: list[str] = []  # lines of one command, which a backslash continues
    for at, line in enumerate(text.splitlines()):
        begun.append(line.removesuffix("\\"))
        if not line.endswith("\\"):
            for words in _split(" ".join(begun)):
                yield at - len(begun) + 1, words
            begun = []


def _split(written: str) -> Iterator[tuple[str, ...]]:
    """The commands that a shell would run: parts of a pipe, and what stands in $(…), each by itself."""
    lexer = shlex.shlex(written, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set("|&;<>()"):
            if words and words[0] != ">":  # what follows that is a file, and is no command
                yield tuple(words)
            words = [">"] if ">" in word else []
        else:
            for inner in re.findall(r"\$\(([^)]*)\)", word):
                yield from _split(inner)
            if words or not re.fullmatch(r"\w+=.*", word):  # NAME=value before a program
                words.append(word)


# What a block of a page may be marked as: a shell's, another grammar's, or somebody's words.
SHELLS = ("sh", "console")
KINDS = (*SHELLS, "python", "toml", "json", "yaml", "text")
# A block that is marked as one of these is read as such.
GRAMMAR: dict[str, Callable[[str], object]] = {"toml": tomllib.loads, "python": ast.parse}


def is_grammatical(text: str, kind: str) -> bool:
    """Whether the text can be read as TOML or Python; of another kind any can."""
    with suppress(tomllib.TOMLDecodeError, SyntaxError):
        GRAMMAR.get(kind, str)(text)
        return True
    return False


_FOLDERS = (".github/", "docs/", "docs/reference/", "docs/decisions/")
PATTERNS = ("*.md", *(f"{folder}*.md" for folder in _FOLDERS))
PATTERNS += ("examples/*/README.md", "packages/*/README.md")


class UnclearPageError(Exception):
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


class Page:
    """One file, parsed once. `programs`: what an unlabelled block of commands may begin with."""

    def __init__(self, root: Path, name: str, programs: frozenset[str]) -> None:
        self.name = name
        self._programs = programs
        self._text = (root / name).read_text(encoding="utf-8")
        self._tokens = MarkdownIt("commonmark").enable("table").parse(self._text)
        blocks = ("fence", "code_block")
        self._blocks = [token for token in self._tokens if token.type in blocks]

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

    def links(self) -> Iterator[tuple[int, str]]:
        """(line, target) of every link and picture, addresses elsewhere included."""
        for line, child in self._inline():
            target = child.attrGet("href") or child.attrGet("src")
            if child.type in ("link_open", "image") and isinstance(target, str):
                yield line, target

    def commands(self) -> list[Command]:
        """Commands in blocks and in code inside sentences. Raises `UnclearPageError`."""
        if self.name.startswith("docs/decisions/"):  # meant on a day; its commands may be gone
            return []
        found = [command for token in self._blocks for command in self._block(token)]
        for line, said in self.said():
            words = tuple(said.split())
            if len(words) > 1 and words[0] in ("servable", "make", "cdk"):
                found.append(Command(self.name, line, words, inline=True))
        return found

    def said(self) -> list[tuple[int, str]]:
        """(line, content) of all code inside sentences, and inside comments of TOML."""
        code = [(at, one.content) for at, one in self._inline() if one.type == "code_inline"]
        return code + [one for token in self._tables() for one in _in_comments(token)]

    def tables(self) -> list[tuple[int, dict[str, Any]]]:
        """(line, content) of every block of TOML."""
        return [(_line(token), tomllib.loads(token.content)) for token in self._tables()]

    def _tables(self) -> list[Token]:
        toml = (token for token in self._blocks if token.info in ("", "toml"))
        return [token for token in toml if is_grammatical(token.content, "toml")]

    @property
    def made(self) -> set[str]:
        """Environments that the reader makes: by `servable init`, or by writing a block to a file."""
        matches = set(re.findall(r"this to `environments/([\w-]+)\.toml`", self._text))
        for command in self.commands():
            if command.program == "servable" and command.words[1:2] == ("init",):
                words = command.words[2:]
                named = [b for a, b in pairwise(words) if a == "--name"]
                matches |= set(named) or {Path(it).name.replace("_", "-") for it in words[:1]}
        return matches

    def _inline(self) -> Iterator[tuple[int, Token]]:
        for token in self._tokens:
            for child in token.children or ():
                yield _line(token), child

    def _block(self, token: Token) -> Iterator[Command]:
        if not self._is_shell(token):
            return
        line = _line(token) + (token.type == "fence")
        try:
            for at, words in commands(token.content, with_answers=token.info == "console"):
                yield Command(self.name, line + at, words)
        except ValueError as wrong:
            raise UnclearPageError(self._where(token, str(wrong))) from None

    def _is_shell(self, token: Token) -> bool:
        if token.info:
            if token.info not in KINDS:
                raise UnclearPageError(self._where(token, f"a block of {token.info!r}"))
            if not is_grammatical(token.content, token.info):
                raise UnclearPageError(self._where(token, f"is no {token.info}"))
            return token.info in SHELLS
        first = next(iter(token.content.split()), "").rpartition("/")[2]
        if first in self._programs:
            return True
        if not any(is_grammatical(token.content, kind) for kind in GRAMMAR):
            raise UnclearPageError(self._where(token, "neither TOML, Python nor commands"))
        return False

    def _where(self, token: Token, problem: str) -> str:
        return f"{self.name}:{_line(token)}: {problem}; fence it as one of {', '.join(KINDS)}"


_COMMENT = re.compile(r"""(?:[^#"']|"[^"]*"|'[^']*')*#(.*)""")  # no string over several lines


def _line(token: Token) -> int:
    return (token.map or [0])[0] + 1


def _in_comments(token: Token) -> Iterator[tuple[int, str]]:
    first = _line(token) + (token.type == "fence")
    for line, text in enumerate(token.content.splitlines(), start=first):
        if match := _COMMENT.match(text):
            yield from ((line, said) for said in re.findall("`([^`]+)`", match[1]))


def pages(root: Path, programs: frozenset[str]) -> list[Page]:
    files = sorted({file for pattern in PATTERNS for file in root.glob(pattern)})
    return [Page(root, file.relative_to(root).as_posix(), programs) for file in files]
