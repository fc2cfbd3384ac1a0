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


def compute_sha256(file: Path) -> str:
    """Return the SHA-256 of a file as lower-case hexadecimal. Raises OSError."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


# Tools create them: they differ between computers, and no model needs them.
LEFT_OUT = frozenset(
    {".DS_Store", ".bzr", ".git", ".hg", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache"}
    | {".ruff_cache", ".servable", ".svn", "__pycache__"}
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
    """The entries of an archive, sorted by name, and the paths that were left out of it."""

    entries: tuple[Entry, ...]
    left_out: tuple[Path, ...]

    @property
    def files(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if not entry.is_folder)

    @property
    def input_bytes(self) -> int:
        return sum(entry.status.st_size for entry in self.files)


def list_tree(folder: Path, *, name: str) -> Tree:
    """List the folder under `name`, with everything in it. Raises `PackagingError`.

    A link to a file inside the folder becomes that file's content. A link to a folder is rejected, because
    it may lead into itself.
    """
    root = os.path.realpath(folder)
    entries = [Entry(name, folder, _read_status(folder))]
    left_out: list[Path] = []
    waiting = [entries[0]]  # and no recursion: folders may lie deeper than Python's stack
    while waiting:
        parent = waiting.pop()
        try:
            paths = list(parent.path.iterdir())
        except OSError as error:
            raise build_unreadable_error(parent.path, error) from None
        for path in paths:
            if path.name in LEFT_OUT or path.match(PARTS):
                left_out.append(path)
                continue
            entry = Entry(f"{parent.name}/{_decode_name(path)}", path, _check_path(path, root))
            entries.append(entry)
            if entry.is_folder:
                waiting.append(entry)
    return Tree(tuple(sorted(entries, key=lambda entry: entry.name)), tuple(sorted(left_out)))


def merge_trees(trees: Iterable[Tree]) -> Tree:
    """Merge listings into one; a folder that several of them have appears once."""
    entries: dict[str, Entry] = {}
    left_out: list[Path] = []
    for part in trees:
        entries |= {entry.name: entry for entry in part.entries}
        left_out += part.left_out
    return Tree(tuple(entries[name] for name in sorted(entries)), tuple(sorted(left_out)))


def _check_path(path: Path, root: str) -> os.stat_result:
    try:
        is_link = path.is_symlink()
    except OSError as error:
        raise build_unreadable_error(path, error) from None
    if is_link and not Path(os.path.realpath(path)).is_relative_to(root):
        problem = "is a link to a path outside its folder"
        raise PackagingError(path, problem, "replace it with a copy")
    status = _read_status(path)
    if is_link and stat.S_ISDIR(status.st_mode):
        raise PackagingError(path, "is a link to a folder", "replace it with a copy")
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        kinds = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
        kind = kinds.get(stat.S_IFMT(status.st_mode), "device")
        raise PackagingError(path, f"is a {kind}, not a file or a folder", "remove it")
    return status


def _read_status(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        if path.is_symlink():
            raise PackagingError(path, "is a broken link", "replace it with a copy") from None
        raise build_unreadable_error(path, error) from None


def build_unreadable_error(path: Path, error: OSError) -> PackagingError:
    """Return the error for a path that can't be read, with its remedy."""
    long = error.errno == errno.ENAMETOOLONG
    remedy = "shorten its names" if long else "let this user read it"
    return PackagingError(path, f"cannot be read: {error.strerror}", remedy)


def _decode_name(path: Path) -> str:
    # From the bytes on the disk, because Python decodes them by the locale.
    try:
        return os.fsencode(path.name).decode("utf-8")
    except UnicodeDecodeError:
        raise PackagingError(path, "has a name that is not UTF-8", "rename it") from None


Progress = Callable[[int, int], object]
"""Called with the bytes done and the total, once per block or file, from one thread at a time."""


class ProgressCounter:
    """A counter that adds up the bytes that several threads have processed."""

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
def open_unchanged(entry: Entry) -> Iterator[int]:
    """Open the listed file and yield its descriptor.

    Raises `PackagingError` if the file isn't what was listed, before or after reading. The change time is
    compared, too: nobody can set it back.
    """
    try:
        # Not blocking: the name may have become a pipe since it was listed.
        descriptor = os.open(entry.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise build_unreadable_error(entry.path, error) from None
    try:
        _check_unchanged(entry, os.fstat(descriptor))
        yield descriptor
        _check_unchanged(entry, os.fstat(descriptor))
    finally:
        os.close(descriptor)


def read_into(descriptor: int, space: memoryview, entry: Entry) -> int:
    """Read at least one byte to the start of `space`; return the number. Raises `PackagingError`."""
    try:
        count = os.readv(descriptor, [space])
    except OSError as error:
        raise build_unreadable_error(entry.path, error) from None
    if count == 0:
        raise build_changed_error(entry)
    return count


def build_changed_error(entry: Entry) -> PackagingError:
    remedy = "try again when no process writes to it"
    return PackagingError(entry.path, "changed while it was read", remedy)


def extract_signature(status: os.stat_result) -> tuple[int, int, int, int]:
    """Return properties that change with the content: bytes, two times in nanoseconds, inode."""
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _check_unchanged(entry: Entry, now: os.stat_result) -> None:
    if extract_signature(now) != extract_signature(entry.status):
        raise build_changed_error(entry)
