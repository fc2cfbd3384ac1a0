"""The name of an archive before it exists: a hash over everything that decides its content."""

import hashlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from model_packaging.content_cache import ContentCache
from model_packaging.inputs import ArchiveInputs
from model_packaging.progress import Progress, Told
from model_packaging.source_file import read_into, unchanged
from model_packaging.tree import Entry, Tree

# Raise it when the same inputs would become other bytes.
PACKER_VERSION = 4

_BUFFER_BYTES = 1 << 20


def key(inputs: ArchiveInputs, *, cache: Path | None = None) -> str:
    """SHA-256, as 64 hex digits, over names, sizes and contents of all entries.

    `cache`: the project's .servable, which spares reading what was read before; the key
    is the same without it. Raises `PackagingError`.
    """
    return key_and_tree(inputs, cache=cache)[0]


def key_and_tree(
    inputs: ArchiveInputs, *, cache: Path | None = None, progress: Progress | None = None
) -> tuple[str, Tree]:
    """The key, and the listing it was made of: `pack_tree` refuses what changed since.

    `progress`: of reading what was not read before.
    """
    return key_tree_and_hashes(inputs, cache=cache, progress=progress)[:2]


def key_tree_and_hashes(
    inputs: ArchiveInputs, *, cache: Path | None = None, progress: Progress | None = None
) -> tuple[str, Tree, dict[str, str]]:
    """Both, and the SHA-256 of each file by its name in the archive. Raises `PackagingError`."""
    listed_at_seconds = time.time()
    tree = inputs.tree()
    known = ContentCache(cache, repr(inputs), tree.files) if cache else None
    hashes = {entry.name: known.sha256(entry) if known else None for entry in tree.files}
    unknown = [entry for entry in tree.files if hashes[entry.name] is None]
    told = Told(progress, sum(entry.status.st_size for entry in unknown))
    # hashlib lets other threads run: two cores, twice the speed.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        hashing = pool.map(lambda entry: _sha256(entry, told), unknown)
        read = dict(zip((one.name for one in unknown), hashing, strict=True))
    whole = {name: read.get(name) or str(digest) for name, digest in hashes.items()}
    if known:
        known.write(whole, listed_at_seconds=listed_at_seconds)
    return _key(tree, whole), tree, whole


def _key(tree: Tree, hashes: dict[str, str]) -> str:
    entries = [
        [entry.name] if entry.is_folder else [entry.name, entry.status.st_size, hashes[entry.name]]
        for entry in tree.entries
    ]
    said = json.dumps({"packer": PACKER_VERSION, "entries": entries}, separators=(",", ":"))
    return hashlib.sha256(said.encode()).hexdigest()


def _sha256(entry: Entry, told: Told) -> str:
    digest = hashlib.sha256()
    left = entry.status.st_size
    buffer = memoryview(bytearray(min(left, _BUFFER_BYTES)))
    with unchanged(entry) as descriptor:
        while left:
            count = read_into(descriptor, buffer[:left], entry)
            digest.update(buffer[:count])
            left -= count
            told(count)
    return digest.hexdigest()
