"""How long work tells how far it is."""

import threading
from collections.abc import Callable

Progress = Callable[[int, int], object]
"""Told bytes done so far and bytes in all, once per block or file, from one thread at a time."""


class Told:
    """Adds up what several threads have done."""

    def __init__(self, progress: Progress | None, total_bytes: int) -> None:
        self._progress = progress
        self._total_bytes = total_bytes
        self._done_bytes = 0
        self._lock = threading.Lock()

    def __call__(self, more_bytes: int) -> None:
        if self._progress is None:
            return
        with self._lock:
            self._done_bytes += more_bytes
            self._progress(self._done_bytes, self._total_bytes)
