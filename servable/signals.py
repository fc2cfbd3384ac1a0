"""Signals that end a command as Ctrl-C does: what it made is taken away first."""

import signal


def as_ctrl_c() -> None:
    """Whoever started us in the background ends us so; a shell's "&" ignores SIGINT."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A closed terminal or SSH session; under nohup it is meant to go on.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.default_int_handler)
