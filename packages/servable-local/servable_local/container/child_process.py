"""Processes of an endpoint: each ends with its parent, and reports events as JSON lines."""

import argparse
import asyncio
import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def exit_with_parent(parent_pid: int) -> None:
    """Make the kernel, or otherwise a thread, kill this process when its parent has ended."""
    if sys.platform == "linux":
        _call_prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:

        def watch() -> None:
            while os.getppid() == parent_pid:
                time.sleep(1.0)
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()
    if os.getppid() != parent_pid:  # it ended before the call above
        os._exit(1)


def adopt_orphans() -> None:
    """Adopt the children of dead children, so that this process can wait for their end."""
    if sys.platform == "linux":
        _call_prctl(_PR_SET_CHILD_SUBREAPER, 1)


def reap_children() -> Iterator[tuple[int, int]]:
    """Yield process ID and exit status of each child that has ended."""
    with contextlib.suppress(ChildProcessError):  # no child is left
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended[0], os.waitstatus_to_exitcode(ended[1])


def call_at_end(end: Callable[[], None], *, parent_pid: int) -> None:
    """Call `end`, in some thread, when stdin or the parent ends, or at SIGTERM."""

    def watch() -> None:
        # A pipe alone is not enough: a process that the parent forked holds its other end too.
        while os.getppid() == parent_pid:
            readable, _, _ = select.select([sys.stdin], [], [], 1.0)
            if readable and not os.read(sys.stdin.fileno(), 1024):
                break
        end()

    signal.signal(signal.SIGTERM, lambda *_: end())
    # Ctrl-C goes to the whole group: the parent decides when we end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, name="parent watchdog", daemon=True).start()


def _call_prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class ContainerStartError(Exception):
    """The container can't start. `str()` is a whole sentence."""


class Events:
    """Standard output, reserved for events."""

    def __init__(self) -> None:
        # What the archive's code prints must not be taken for one of our lines.
        self._out = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def report(self, **event: Any) -> None:
        # One write of less than a page: lines of several processes do not mix.
        line = json.dumps(event).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):  # the reader has ended; we are about to
            os.write(self._out, line)


def begin_child() -> tuple[Any, Events]:
    """Begin a process that a `ChildProcess` started. Return its plan and events."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--parent-pid", type=int, required=True)
    arguments.add_argument("--plan", type=json.loads, required=True)
    options = arguments.parse_args()
    exit_with_parent(options.parent_pid)
    # Ctrl-C goes to the whole group: the supervisor decides when we end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return options.plan, Events()


def log(sentence: str) -> None:
    """Write a line into the endpoint's log."""
    print(sentence, file=sys.stderr, flush=True)


class ChildProcess:
    """A process `python -m MODULE` whose standard output is events. It ends with this process."""

    def __init__(
        self,
        module: str,
        plan: Any,
        environment: Mapping[str, str],
        on_event: Callable[[dict[str, Any]], None],
    ) -> None:
        # -P: the working folder is not searched for modules, whatever it holds.
        command = [sys.executable, "-P", "-m", module, "--parent-pid", str(os.getpid())]
        command += ["--plan", json.dumps(plan)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self.pid, self.module = self._process.pid, module
        self._on_event = on_event
        self._rest = b""
        assert self._process.stdout is not None  # it is a pipe
        self._out = self._process.stdout.fileno()
        asyncio.get_running_loop().add_reader(self._out, self._read_events)

    def send(self, **line: Any) -> None:
        """Send one JSON line to its standard input; a path becomes its text."""
        assert self._process.stdin is not None  # it is a pipe
        self._process.stdin.write(json.dumps(line, default=str).encode() + b"\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill it for good; the supervisor waits for every child."""
        with contextlib.suppress(ProcessLookupError):  # it has already ended
            os.kill(self.pid, signal.SIGKILL)
        self.release()

    def release(self) -> None:
        """Read the last events of a child that was waited for, and close its pipes."""
        self._read_events()
        asyncio.get_running_loop().remove_reader(self._out)
        self._process.returncode = 0  # Popen would wait for it again
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # an unread line
                    pipe.close()

    def _read_events(self) -> None:
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
