"""Captured requests that reading skips: named by file and reason, counted; reading goes on."""

from collections.abc import Sequence
from dataclasses import dataclass

from servable.console.terminal import escaped_name

# More files than a screen shows are in the run's folder.
SHOWN = 10


@dataclass(slots=True)
class SkipCount:
    """Lines of one file that were skipped for one reason."""

    file: str
    reason: str
    lines: int
    """0: the whole file."""
    first_line: int
    """Line from 1; 0: the whole file."""

    def __str__(self) -> str:
        if not self.lines:
            return f"{self.file}: skipped: {self.reason}"
        if self.lines == 1:
            return f"{self.file}, line {self.first_line}: skipped: {self.reason}"
        return f"{self.file}: {self.lines:,} lines skipped, the first is {self.first_line}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class ReadLines:
    """The captured lines that were read for a replay."""

    read: int = 0
    skipped: int = 0
    """Lines among them that hold no request that can be replayed."""
    unread_files: tuple[str, ...] = ()
    """Files of data capture that were skipped as a whole."""


class SkippedLines:
    """`add` each line as it comes; `all` has a SkipCount for each file and reason."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], SkipCount] = {}

    def add(self, file: str, line: int, reason: str) -> None:
        """`line`: from 1; 0 is the whole file."""
        file = escaped_name(file)
        count = self._counts.setdefault((file, reason), SkipCount(file, reason, 0, line))
        count.lines += 1 if line else 0

    @property
    def all(self) -> list[SkipCount]:
        return list(self._counts.values())


def skipped_lines(skipped: Sequence[SkipCount]) -> list[str]:
    """Return a sentence for each file and reason, those of many files cut short."""
    lines = [str(count) for count in skipped[:SHOWN]]
    if len(skipped) > SHOWN:
        lines.append(f"and {len(skipped) - SHOWN:,} more; --json lists all")
    return lines
