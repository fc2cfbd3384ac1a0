"""Escape control characters of data wherever a command prints it to a terminal.

A terminal acts on control characters: they hide lines, write to the clipboard, and change the
title.
Source: https://invisible-island.net/xterm/ctlseqs/ctlseqs.html (2026-11-23)
Characters of Bidi_Control change the order in which text is displayed:
https://www.unicode.org/reports/tr9/ (2026-11-24)
"""

import io
import os
import re
import sys
from collections.abc import Iterable
from typing import Any

# C0, DEL, C1 and Bidi_Control; ends of lines and tabs are layout.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# A line's end would begin another sentence; a surrogate cannot be written to a file.
_NOT_OF_A_NAME = re.compile(rf"{_CONTROL.pattern}|[\t\n\u2028\u2029\ud800-\udfff]")


def escape_controls(text: str, characters: re.Pattern[str] = _CONTROL) -> str:
    """Return text with its control characters replaced by escape sequences."""
    return characters.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def escape_name(name: str) -> str:
    """Return a name that comes from data, escaped so that it can stand within one line."""
    return escape_controls(name, _NOT_OF_A_NAME)


class EscapedStream:
    """A stream that escapes what is written to it; `plain`, for Servable's own styles, doesn't."""

    def __init__(self, plain: io.TextIOWrapper) -> None:
        self.plain = plain

    def write(self, text: str | bytes) -> int:
        """Write text, or bytes where click finds no `buffer`; return how many characters."""
        if isinstance(text, bytes):
            text = text.decode(errors="backslashreplace")
        return self.plain.write(escape_controls(text))

    def writelines(self, lines: Iterable[str]) -> None:
        self.plain.writelines(map(escape_controls, lines))

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # click writes to it where the encoding is ASCII
            raise AttributeError(name)
        return getattr(self.plain, name)


def escape_output() -> None:
    """Escape printed control characters, and what the output's encoding lacks, from now on."""
    for name in ("stdout", "stderr"):
        if isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
            setattr(sys, name, EscapedStream(stream))


def uses_color(stream: Any) -> bool:
    """Return whether output to a stream gets styles.

    NO_COLOR turns them off, FORCE_COLOR turns them on, and otherwise a terminal gets them. An
    empty variable counts as absent. Source: https://no-color.org, https://force-color.org
    (2026-11-29)
    """
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or bool(stream.isatty())


def unwrap_stream(stream: Any) -> Any:
    """Return the stream that doesn't escape, for Servable's own sequences and escaped text."""
    return getattr(stream, "plain", stream)
