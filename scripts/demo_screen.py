"""What the demonstrations show: one title, the command, what came of it, and the time it took."""

import sys
import time
from collections.abc import Callable

from rich.console import Console

# Wide enough for a resource's name where there is no terminal to ask.
console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 160)
# Where standard output is for programs.
errors = Console(highlight=False, soft_wrap=True, stderr=True)


def step(title: str, act: Callable[[], object], screen: Console = console) -> None:
    screen.print(f"\n{title}", style="bold cyan")
    start = time.monotonic()
    act()
    screen.print(f"  {time.monotonic() - start:.1f} s", style="green")


def show_line(line: str, screen: Console = console) -> None:
    """What the CLI says, without a resource's every stage: that it is made is enough."""
    event = [part.strip() for part in line.split("|")]
    if len(event) == 6:
        _, progress, _, status, kind, name = event
        if "IN_PROGRESS" in status:
            return
        line = f"{progress:>6}  {status:16} {kind:42} {name}"
    screen.print(f"  | {line}", style="dim", markup=False)


def short_name(name: str) -> str:
    """The end of an ARN: its beginning is the same everywhere."""
    return name.split(":", 5)[-1] if name.startswith("arn:") else name
