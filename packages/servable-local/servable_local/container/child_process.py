"""A process that the supervisor started, and the events it tells: a JSON object on a line."""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from servable_local.container import parent_watchdog


class ContainerStartError(Exception):
    """`str()` is a whole sentence."""


class Events:
    """Standard output, kept for events alone."""

    def __init__(self) -> None:
        # What the archive's code prints must not be taken for one of our lines.
        self._out = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def tell(self, **event: Any) -> None:
        # One write of less than a page: lines of several processes do not mix.
        with contextlib.suppress(BrokenPipeError):  # nobody reads it, and we are about to end too
            os.write(self._out, json.dumps(event).encode() + b"\n")


def begin_child() -> tuple[Any, Events]:
    """Begin a process that a `ChildProcess` started: its plan, if it has one, and its events."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--parent-pid", type=int, required=True)
    arguments.add_argument("--plan", type=json.loads)
    options = arguments.parse_args()
    parent_watchdog.die_with(options.parent_pid)
    # Ctrl-C goes to the whole group: the supervisor decides when we end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return options.plan, Events()


def log(sentence: str) -> None:
    """Write a line into the endpoint's log."""
    print(sentence, file=sys.stderr, flush=True)


class ChildProcess:
    """`python -m MODULE`, whose standard output is events. It ends with this process."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        on_event: Callable[[dict[str, Any]], None],
    ) -> None:
        # -P: the working folder is not searched for modules, whatever it holds.
        command = [sys.executable, "-P", "-m", module, "--parent-pid", str(os.getpid())]
        self._process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self.pid = self._process.pid
        self.module = module
        self._on_event = on_event
        self._rest = b""
        assert self._process.stdout is not None  # asked for
        self._out = self._process.stdout.fileno()
        asyncio.get_running_loop().add_reader(self._out, self._read)

    def tell(self, **line: Any) -> None:
        """One JSON line on its standard input."""
        assert self._process.stdin is not None  # asked for
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """End it for good; the supervisor waits for every child."""
        with contextlib.suppress(ProcessLookupError):  # it was quicker
            os.kill(self.pid, signal.SIGKILL)
        self.forget()

    def forget(self) -> None:
        """It has ended, and was waited for: what it said last is heard, its pipes are closed."""
        self._read()
        asyncio.get_running_loop().remove_reader(self._out)
        self._process.returncode = 0  # Popen would wait for it again
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # a line that nobody read
                    pipe.close()

    def _read(self) -> None:
        os.set_blocking(self._out, False)
        while True:
            try:
                data = os.read(self._out, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                asyncio.get_running_loop().remove_reader(self._out)
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._on_event(json.loads(line))
