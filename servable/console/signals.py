"""Signals that end a command as Ctrl-C does, so that it removes its temporary files and processes.

The exit code is that of a shell: 128 and the signal's number, 130 after Ctrl-C and 143 after SIGTERM.
"""

import os
import signal

# Returned by a command that keeps what it has done when Ctrl-C or another signal ends it.
INTERRUPTED = 130
_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_received = signal.SIGINT


def end_on_ctrl_c() -> None:
    """End the process at once on Ctrl-C, SIGTERM and SIGHUP, where a KeyboardInterrupt would print a trace.

    For moments that leave nothing behind: imports, Python's shutdown. A signal that the process
    ignores stays ignored: SIGINT of a command that a shell's "&" has started, SIGHUP under nohup.
    """
    for number in _NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def raise_on_ctrl_c() -> None:
    """Undo `end_on_ctrl_c`: Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt."""
    for number in _NUMBERS:
        if signal.getsignal(number) is _end:
            signal.signal(number, _interrupt)


def as_ctrl_c() -> None:
    """Raise KeyboardInterrupt on SIGINT even where a shell's "&" has ignored it."""
    signal.signal(signal.SIGINT, _interrupt)


def interrupted_code() -> int:
    """Return the exit code for the signal that interrupted the command."""
    return 128 + _received


def _interrupt(number: int, frame: object) -> None:
    global _received
    _received = signal.Signals(number)
    raise KeyboardInterrupt


def _end(number: int, frame: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(128 + number)
