"""A block of shell as the commands in it, each with its words."""

import re
import shlex
from collections.abc import Iterator

PROMPT = "$ "


def commands(text: str, *, with_answers: bool = False) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line from 0, words). `with_answers`: only what follows a prompt is a command.

    Raises ValueError for quotes that nobody closes.
    """
    if with_answers:
        typed = [one[2:] if one.startswith(PROMPT) else "" for one in text.splitlines()]
        text = "\n".join(typed)
    for at, written in _whole_lines(text):
        for words in _split(written):
            yield at, words


def _whole_lines(text: str) -> Iterator[tuple[int, str]]:
    """(its first line from 0, a command's whole text, joined where a backslash ends a line)."""
    begun: list[str] = []
    for at, line in enumerate(text.splitlines()):
        begun.append(line.removesuffix("\\"))
        if not line.endswith("\\"):
            yield at - len(begun) + 1, " ".join(begun)
            begun = []


def _split(written: str) -> Iterator[tuple[str, ...]]:
    """What a shell would run: parts of a pipe, and what stands in $(…), each by itself."""
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
