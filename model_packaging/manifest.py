"""The name of an archive before it exists: a hash over everything that decides its content."""

import hashlib
import json
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from model_packaging.beside import write_beside
from model_packaging.inputs import ArchiveInputs
from model_packaging.source_file import Progress, ProgressCounter, read_into, signature, unchanged
from model_packaging.tree import Entry, Tree

# The coarsest clock among file systems in use is FAT's: 2 s.
# Source: https://learn.microsoft.com/windows/win32/sysinfo/file-times
GRANULARITY_SECONDS = 2.0
FOLDER = "content-hashes"
# Raise it when the same inputs would become other bytes.
PACKER_VERSION = 4
_BUFFER_BYTES = 1 << 20


def key(inputs: ArchiveInputs, *, cache: Path | None = None) -> str:
    """SHA-256, as 64 hex digits, over names, sizes and contents of all entries.

    `cache`: the project's .servable, which spares reading what was read before; the key
    is the same without it. Raises `PackagingError`.
    """
    return key_tree_and_hashes(inputs, cache=cache)[0]


def key_tree_and_hashes(
    inputs: ArchiveInputs, *, cache: Path | None = None, progress: Progress | None = None
) -> tuple[str, Tree, dict[str, str]]:
    """The key, the listing it was made of, and the SHA-256 of each file by its name in the archive.

    `pack_tree` refuses what changed since the listing. `progress`: of reading what was not read before.
    Raises `PackagingError`.
    """
    listed_at_seconds = time.time()
    tree = inputs.tree()
    content_cache = ContentCache(cache, repr(inputs), tree.files) if cache else None
    hashes: dict[str, str] = {}
    unread: list[Entry] = []
    for entry in tree.files:
        digest = content_cache.sha256(entry) if content_cache else None
        if digest is None:
            unread.append(entry)
        else:
            hashes[entry.name] = digest
    counter = ProgressCounter(progress, sum(entry.status.st_size for entry in unread))
    # hashlib lets other threads run: two cores, twice the speed.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        hashing = pool.map(lambda entry: _sha256(entry, counter), unread)
        hashes |= dict(zip((entry.name for entry in unread), hashing, strict=True))
    if content_cache:
        content_cache.write(hashes, listed_at_seconds=listed_at_seconds)
    entries = [
        [entry.name] if entry.is_folder else [entry.name, entry.status.st_size, hashes[entry.name]]
        for entry in tree.entries
    ]
    text = json.dumps({"packer": PACKER_VERSION, "entries": entries}, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest(), tree, hashes


def _sha256(entry: Entry, counter: ProgressCounter) -> str:
    digest = hashlib.sha256()
    remaining = entry.status.st_size
    buffer = memoryview(bytearray(min(remaining, _BUFFER_BYTES)))
    with unchanged(entry) as descriptor:
        while remaining:
            count = read_into(descriptor, buffer[:remaining], entry)
            digest.update(buffer[:count])
            remaining -= count
            counter(count)
    return digest.hexdigest()


class ContentCache:
    """The SHA-256 of files that were read before: by path, size, times and inode; a file a set of inputs.

    Only an aid: whatever is missing, damaged or cannot be written is read again.
    """

    def __init__(self, folder: Path, name: str, entries: Iterable[Entry]) -> None:
        """`folder`: the project's .servable. `name`: of this set of inputs, however its files
        change; nobody has to merge, and processes that write it at once write the same."""
        self._entries = list(entries)
        short = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self.path = folder / FOLDER / f"{short}.json"
        self._rows: dict[str, list[int | str]] = {}
        try:
            checksum, body = self.path.read_text(encoding="utf-8").split("\n", 1)
            rows = json.loads(body) if checksum == _checksum(body) else {}
        except (OSError, ValueError):
            return
        self._rows = rows if isinstance(rows, dict) else {}

    def sha256(self, entry: Entry) -> str | None:
        row = self._rows.get(str(_absolute(entry)))
        if row and row[:-1] == list(signature(entry.status)):
            return str(row[-1])
        return None

    def write(self, hashes: dict[str, str], *, listed_at_seconds: float) -> None:
        """`hashes` by name in the archive; `listed_at_seconds`: the time just before listing.

        A file not older than that by more than its clock's step is not kept: it could have
        changed after it was read, under the same size and times ("racy git":
        https://git-scm.com/docs/racy-git).
        """
        newest = listed_at_seconds - GRANULARITY_SECONDS
        kept = {
            str(_absolute(entry)): [*signature(entry.status), hashes[entry.name]]
            for entry in self._entries
            if max(entry.status.st_mtime, entry.status.st_ctime) < newest
        }
        if kept == self._rows:
            return
        body = json.dumps(kept, separators=(",", ":"))
        try:
            write_beside(self.path, f"{_checksum(body)}\n{body}".encode())
        except OSError:
            pass  # a project that cannot be written is read again next time


def _absolute(entry: Entry) -> Path:
    return Path(os.path.abspath(entry.path))  # noqa: PTH100  (resolve() would ask the disk)


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
