"""Signals that end a command as Ctrl-C does, so that it removes its temporary files and processes."""

import os
import signal


def end_on_ctrl_c() -> None:
    """End the process with 130 on Ctrl-C, where a KeyboardInterrupt would print a trace.

    For moments that leave nothing behind: imports and synthesis. A command that a shell's "&" has
    started ignores SIGINT, and goes on doing so.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)


def raise_on_ctrl_c() -> None:
    """Undo `end_on_ctrl_c`: Ctrl-C raises KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def as_ctrl_c() -> None:
    """Treat SIGTERM and SIGHUP as Ctrl-C, and SIGINT too where a shell's "&" has ignored it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A closed terminal or SSH session; under nohup the command goes on.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.default_int_handler)


def _end(*_: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)
