"""List a folder's names and contents for an archive, and read each file completely and unchanged.

Nothing in a listing is specific to this computer.
"""

import errno
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from model_packaging.beside import PARTS
from model_packaging.refusal import PackagingError


def sha256_of(file: Path) -> str:
    """Lower-case hexadecimal. Raises OSError."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


# Made by tools, not by people: they differ between computers and serve nothing.
LEFT_OUT = frozenset(
    {
        ".DS_Store",
        ".bzr",
        ".git",
        ".hg",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".servable",
        ".svn",
        "__pycache__",
    }
)


@dataclass(frozen=True)
class Entry:
    """One file or folder, as it was when it was listed."""

    name: str
    """In the archive: UTF-8, relative, with forward slashes."""
    path: Path
    status: os.stat_result
    """Status of the file; of the target if `path` is a link."""

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)


@dataclass(frozen=True)
class Tree:
    """Entries of an archive, sorted by name, and the paths that were left out of it."""

    entries: tuple[Entry, ...]
    left_out: tuple[Path, ...]

    @property
    def files(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if not entry.is_folder)

    @property
    def input_bytes(self) -> int:
        return sum(entry.status.st_size for entry in self.files)


def tree(folder: Path, *, name: str) -> Tree:
    """The folder, as `name`, and all that is in it. Raises `PackagingError`.

    A link to a file inside the folder becomes that file's content: what unpacks the archive
    need not know links. One to a folder is refused, since it may lead into itself.
    """
    root = os.path.realpath(folder)
    entries = [Entry(name, folder, _status(folder))]
    left_out: list[Path] = []
    waiting = [entries[0]]  # and no recursion: folders may lie deeper than Python's stack
    while waiting:
        parent = waiting.pop()
        try:
            paths = list(parent.path.iterdir())
        except OSError as error:
            raise unreadable(parent.path, error) from None
        for path in paths:
            if path.name in LEFT_OUT or path.match(PARTS):
                left_out.append(path)
                continue
            entry = Entry(f"{parent.name}/{_utf8(path)}", path, _followed(path, root))
            entries.append(entry)
            if entry.is_folder:
                waiting.append(entry)
    return Tree(tuple(sorted(entries, key=lambda entry: entry.name)), tuple(sorted(left_out)))


def joined(trees: Iterable[Tree]) -> Tree:
    """All of them as one; a folder that several of them have is there once."""
    entries: dict[str, Entry] = {}
    left_out: list[Path] = []
    for part in trees:
        entries |= {entry.name: entry for entry in part.entries}
        left_out += part.left_out
    return Tree(tuple(entries[name] for name in sorted(entries)), tuple(sorted(left_out)))


def _followed(path: Path, root: str) -> os.stat_result:
    try:
        is_link = path.is_symlink()
    except OSError as error:
        raise unreadable(path, error) from None
    if is_link and not Path(os.path.realpath(path)).is_relative_to(root):
        raise PackagingError(path, "is a link that leaves its folder", "put a copy in its place")
    status = _status(path)
    if is_link and stat.S_ISDIR(status.st_mode):
        raise PackagingError(path, "is a link to a folder", "put a copy in its place")
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        kinds = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
        kind = kinds.get(stat.S_IFMT(status.st_mode), "device")
        raise PackagingError(path, f"is a {kind}, not a file or a folder", "take it out")
    return status


def _status(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        if path.is_symlink():
            raise PackagingError(path, "is a link to nothing", "put a copy in its place") from None
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> PackagingError:
    """Return the refusal of a path that cannot be read, with its remedy."""
    long = error.errno == errno.ENAMETOOLONG
    remedy = "shorten its names" if long else "let this user read it"
    return PackagingError(path, f"cannot be read: {error.strerror}", remedy)


def _utf8(path: Path) -> str:
    # By way of the bytes on the disk: Python decodes them by the locale.
    try:
        return os.fsencode(path.name).decode("utf-8")
    except UnicodeDecodeError:
        raise PackagingError(path, "has a name that is not UTF-8", "rename it") from None


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
