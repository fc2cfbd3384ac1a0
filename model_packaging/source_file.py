"""Reads a file completely and unchanged, or refuses it; and counts the progress."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from model_packaging.refusal import PackagingError
from model_packaging.tree import Entry, unreadable

Progress = Callable[[int, int], object]
"""Told bytes done so far and bytes in all, once per block or file, from one thread at a time."""


class ProgressCounter:
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


@contextmanager
def unchanged(entry: Entry) -> Iterator[int]:
    """A descriptor of the file; `PackagingError` where it is not, or is no longer, what was listed.

    Compared before and after. The change time too: unlike the modification time nobody
    can set it back.
    """
    try:
        # Not blocking: the name may have become a pipe since it was listed.
        descriptor = os.open(entry.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(entry.path, error) from None
    try:
        _compare(entry, os.fstat(descriptor))
        yield descriptor
        _compare(entry, os.fstat(descriptor))
    finally:
        os.close(descriptor)


def read_into(descriptor: int, space: memoryview, entry: Entry) -> int:
    """Reads at least one byte to the start of `space`; returns the number. Raises `PackagingError`."""
    try:
        count = os.readv(descriptor, [space])
    except OSError as error:
        raise unreadable(entry.path, error) from None
    if count == 0:
        raise changed(entry)
    return count


def changed(entry: Entry) -> PackagingError:
    return PackagingError(
        entry.path, "changed while it was read", "try again when nothing writes to it"
    )


def signature(status: os.stat_result) -> tuple[int, int, int, int]:
    """Properties that a change of content changes: bytes, two times in nanoseconds, inode."""
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _compare(entry: Entry, now: os.stat_result) -> None:
    if signature(now) != signature(entry.status):
        raise changed(entry)
