"""Imported before CDK: reads what needs no CDK while that waits for its Node.js to start.

A third of a synth is imports. It may know only modules that never ask CDK: two threads must not.
"""

from contextlib import suppress
from threading import Thread


def _read() -> None:
    with suppress(ImportError):  # whoever needs what is missing says so
        import infra.preflight.check  # noqa: F401


Thread(target=_read, daemon=True).start()
