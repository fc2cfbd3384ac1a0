"""A temporary folder that does not outlive both the process that made it and its endpoint.

Each of the two removes it at its end. When both are killed at once neither can;
the lock they held is then free, and the next launch removes what it finds unlocked.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "servable-container-"
_LOCK = "lock"


class UnpackFolder:
    """`path` exists until `remove`. Hand `lock` to the endpoint's process: it shares the lock."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        # Locked under another name first: a sweep in this moment must not find it free.
        beside = self.path / "lock.new"
        self.lock = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        beside.rename(self.path / _LOCK)
        self._open = True

    def remove(self) -> None:
        """Again is nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._open:
            os.close(self.lock)
            self._open = False


def sweep() -> None:
    """Removes the folders of endpoints that were killed together with whoever started them."""
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{_LOCK}"):
        try:
            held = os.open(lock, os.O_RDWR)
        except OSError:
            continue  # another sweep was quicker, or the folder is another user's
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
        except BlockingIOError:
            pass  # in use
        finally:
            os.close(held)
