"""Text for a terminal: control characters that come with data are escaped, wherever a command prints them.

A terminal acts on them: they hide lines, write to the clipboard and change the title.
Source: https://invisible-island.net/xterm/ctlseqs/ctlseqs.html (2026-11-23)
Characters of Bidi_Control show text in another order: https://www.unicode.org/reports/tr9/ (2026-11-24)
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


def escaped(text: str, characters: re.Pattern[str] = _CONTROL) -> str:
    r"""Return text whose control characters are written as \x1b."""
    return characters.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def escaped_name(name: str) -> str:
    """Return a name that is data as a part of one line."""
    return escaped(name, _NOT_OF_A_NAME)


class EscapedStream:
    """A stream that escapes what is written to it; `plain` takes the styles and moves of our own."""

    def __init__(self, plain: io.TextIOWrapper) -> None:
        self.plain = plain

    def write(self, text: str | bytes) -> int:
        """Write text. Without `buffer`, click writes bytes here too, as those of a completion."""
        if isinstance(text, bytes):
            text = text.decode(errors="backslashreplace")
        return self.plain.write(escaped(text))

    def writelines(self, lines: Iterable[str]) -> None:
        self.plain.writelines(map(escaped, lines))

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # click writes to it where the encoding is ASCII
            raise AttributeError(name)
        return getattr(self.plain, name)


def escape_output() -> None:
    """Escape what this process prints from now on, also characters that the encoding does not have."""
    for name in ("stdout", "stderr"):
        if isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
            setattr(sys, name, EscapedStream(stream))


def uses_color(stream: Any) -> bool:
    """Return whether styles go to a stream: NO_COLOR forbids, FORCE_COLOR asks for them, else a terminal.

    An empty variable counts as absent. Source: https://no-color.org, https://force-color.org (2026-11-29)
    """
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or bool(stream.isatty())


def plain(stream: Any) -> Any:
    """Return the stream for escape sequences of our own, whose caller has escaped everything else."""
    return getattr(stream, "plain", stream)
