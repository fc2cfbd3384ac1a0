"""A console for tables and progress: rich generates the sequences, the text is escaped."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

from servable.console.terminal import escape_controls, unwrap_stream, uses_color

# Progress is shown at least every ten seconds; on a terminal as often as one reads it.
SILENT_SECONDS, REFRESH_SECONDS = 8.0, 0.25


class EscapingConsole(Console):
    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        stream = unwrap_stream(sys.stderr if stderr else sys.stdout)
        if not uses_color(stream):
            options["color_system"] = None
        elif not stream.isatty():  # FORCE_COLOR: styles alone, without lines that are written again
            options |= {"color_system": "standard", "force_terminal": False}
        super().__init__(file=stream, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else escape_controls(text), style, control)


def build_byte_progress(*, transient: bool = False) -> Progress:
    """Return a progress bar on stderr that counts bytes read, packed, or received."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    console = EscapingConsole(stderr=True)
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=transient)


@contextmanager
def show_progress_line() -> Iterator[Callable[[Callable[[], str]], None]]:
    """Yield a function that computes and shows a progress line at most once per interval."""
    console, shown_at = EscapingConsole(stderr=True), time.monotonic()
    live = Live(console=console, transient=True, auto_refresh=False)
    seconds = REFRESH_SECONDS if console.is_terminal else SILENT_SECONDS

    def show(text: Callable[[], str]) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at >= seconds:
            shown_at = time.monotonic()
            if console.is_terminal:
                live.update(Text(text()), refresh=True)
            else:
                click.echo(text(), err=True)

    with live if console.is_terminal else nullcontext():
        yield show


def format_duration(seconds: float) -> str:
    """Return a duration for a message, for example "3 min 10 s"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
