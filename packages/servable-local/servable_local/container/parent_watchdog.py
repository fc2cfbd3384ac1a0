"""Processes of the endpoint end with the one that started them, however that ends."""

import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with(parent_pid: int) -> None:
    """Make the kernel, or else a thread, kill this process when its parent has ended."""
    if sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:

        def watch() -> None:
            while os.getppid() == parent_pid:
                time.sleep(1.0)
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()
    if os.getppid() != parent_pid:  # it ended before we asked
        os._exit(1)


def adopt_orphans() -> None:
    """Children of our dead children become ours, so that we can wait for their end."""
    if sys.platform == "linux":
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hold(end: Callable[[], None], *, parent_pid: int) -> None:
    """From now on: end of stdin, a lost parent or SIGTERM call `end`, in some thread."""

    def ended(number: int = 0, frame: FrameType | None = None) -> None:
        end()

    def watch() -> None:
        # A pipe alone is not enough: a process that the parent forked holds its other end too.
        while os.getppid() == parent_pid:
            readable, _, _ = select.select([sys.stdin], [], [], 1.0)
            if readable and not os.read(sys.stdin.fileno(), 1024):
                break
        end()

    signal.signal(signal.SIGTERM, ended)
    # Ctrl-C goes to the whole group: the parent decides when we end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, name="parent watchdog", daemon=True).start()


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
