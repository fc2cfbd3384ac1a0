"""A console for tables and progress: its sequences are rich's, what it shows is escaped."""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment

from servable_local.terminal import escaped, plain


class EscapingConsole(Console):
    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        super().__init__(file=plain(sys.stderr if stderr else sys.stdout), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else escaped(text), style, control)


def bytes_progress(*, transient: bool = False) -> Progress:
    """Return a progress bar on stderr of bytes that are read, packed or received."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    console = EscapingConsole(stderr=True)
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=transient)
