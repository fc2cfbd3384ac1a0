"""Let signals end a command as Ctrl-C does, so that it removes temporary files and processes.

The exit code is that of a shell: 128 plus the signal's number, which is 130 after Ctrl-C and 143
after SIGTERM.
"""

import os
import signal

# Returned by a command that keeps what it has done when Ctrl-C or another signal ends it.
INTERRUPTED = 130
_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_received = signal.SIGINT


def end_on_ctrl_c() -> None:
    """End the process at once on Ctrl-C, SIGTERM, and SIGHUP, without a traceback.

    Use it while nothing needs to be cleaned up: during imports and Python's shutdown. A signal
    that the process ignores stays ignored: SIGINT of a command that a shell's "&" has started,
    SIGHUP under nohup.
    """
    for number in _NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end_process)


def raise_on_ctrl_c() -> None:
    """Raise KeyboardInterrupt on Ctrl-C, SIGTERM, and SIGHUP again; undoes `end_on_ctrl_c`."""
    for number in _NUMBERS:
        if signal.getsignal(number) is _end_process:
            signal.signal(number, _raise_interrupt)


def enable_ctrl_c() -> None:
    """Raise KeyboardInterrupt on SIGINT even where a shell's "&" made the process ignore it."""
    signal.signal(signal.SIGINT, _raise_interrupt)


def compute_interrupt_code() -> int:
    """Return the exit code for the signal that interrupted the command."""
    return 128 + _received


def _raise_interrupt(number: int, frame: object) -> None:
    global _received
    _received = signal.Signals(number)
    raise KeyboardInterrupt


def _end_process(number: int, frame: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(128 + number)
