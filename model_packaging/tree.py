"""A folder's names and contents for an archive, without anything specific to this computer."""

import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from model_packaging.beside import PARTS
from model_packaging.refusal import PackagingError

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
