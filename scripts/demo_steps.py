"""Steps of the demonstration: shown with their time, and the real CDK CLI run in the project."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]


class CdkError(Exception):
    """The CLI exited with an error. `str()` names the command; its words were shown."""


def cdk(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    show: Callable[[str], None],
    folder: Path = ROOT,
) -> str:
    """Runs `cdk ARGUMENTS` in the folder; `show` gets each line as it comes; all of them.

    In a process group of its own, which is ended whole when anything interrupts us: the
    CLI runs the app, and the app runs jsii.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    process = subprocess.Popen(
        ["cdk", *arguments],
        cwd=folder,
        env={**kept, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    said = []
    try:
        assert process.stdout is not None  # asked for as a pipe
        for line in process.stdout:
            said.append(line)
            if line.strip():
                show(line.rstrip())
        code = process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if code != 0:
        raise CdkError(f"`cdk {' '.join(arguments)}` exited with code {code}; see its words above")
    return "".join(said)


# Wide enough for a resource's name where there is no terminal to ask.
console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 160)


def step(title: str, act: Callable[[], object]) -> None:
    console.print(f"\n{title}", style="bold cyan")
    start = time.monotonic()
    act()
    console.print(f"  {time.monotonic() - start:.1f} s", style="green")


def show_line(line: str) -> None:
    """What the CLI says, without a resource's every stage: that it is made is enough."""
    event = [part.strip() for part in line.split("|")]
    if len(event) == 6:
        _, progress, _, status, kind, name = event
        if "IN_PROGRESS" in status:
            return
        line = f"{progress:>6}  {status:16} {kind:42} {name}"
    console.print(f"  | {line}", style="dim", markup=False)


def run_demo(main: Callable[[], None], *own_errors: type[Exception]) -> None:
    """Run a demonstration; Ctrl-C and its own errors end it with a sentence and exit code 130 or 1."""
    expected: tuple[type[Exception], ...] = (CdkError, *own_errors)
    # Set explicitly, because a shell starts background jobs with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        main()
    except KeyboardInterrupt:
        console.print("\ninterrupted; everything it started has ended")
        sys.exit(130)
    except expected as failed:
        console.print(f"\nthe demo stopped: {failed}", style="red")
        sys.exit(1)
