"""Writes model.tar.gz: the same inputs give the same bytes, whoever packs them, whenever.

On any number of cores. ISA-L may compress otherwise on processors without SSE4.2; the key
is made of the inputs and does not depend on it.
"""

import errno
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

from model_packaging.beside import beside, remedy_for_write
from model_packaging.compressed_file import GzipBlocks, HashedFile
from model_packaging.inputs import ArchiveInputs
from model_packaging.refusal import PackagingError
from model_packaging.source_file import Progress, ProgressCounter, read_into, unchanged
from model_packaging.tree import Entry, Tree

# Linux stamps files with a clock that moves every 1 to 10 ms.
CLOCK_STEP_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class Packed:
    """An archive that is complete on the disk."""

    path: Path
    sha256: str
    """SHA-256 of the archive, as 64 hex digits."""
    bytes: int
    input_bytes: int
    seconds: float


def pack(inputs: ArchiveInputs, target: Path, *, progress: Progress | None = None) -> Packed:
    """Writes the archive to a temporary file and renames it to `target`. Raises `PackagingError`."""
    return pack_tree(inputs.tree(), target, progress=progress)


def pack_tree(tree: Tree, target: Path, *, progress: Progress | None = None) -> Packed:
    """Packs inputs that are listed already, like `pack`; files that changed since are refused."""
    start = time.perf_counter()
    # A file changed in the last tick could change again, under the same time, unseen.
    ago = time.time() - max((entry.status.st_ctime for entry in tree.files), default=0.0)
    if 0 <= ago < CLOCK_STEP_SECONDS:
        time.sleep(CLOCK_STEP_SECONDS - ago)
    total = tree.input_bytes
    counter = ProgressCounter(progress, total)
    try:
        with (
            beside(target) as file,
            HashedFile(file.fileno()) as archive,
            GzipBlocks(archive.write) as packed,
        ):
            for entry in tree.entries:
                packed.write(_header(entry))
                if not entry.is_folder:
                    _copy(entry, packed, counter)
            packed.write(bytes(_END_BYTES + -(packed.size + _END_BYTES) % tarfile.RECORDSIZE))
    except OSError as error:
        remedy = "choose a folder that this user can write"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "make room for the archive, at most about the size of the model, and try again"
        elif error.errno == errno.EFBIG:
            remedy = f"{remedy_for_write(error, target.parent)}, and try again"
        raise PackagingError(target, f"cannot be written: {error.strerror}", remedy) from None
    return Packed(
        path=target,
        sha256=archive.sha256(),
        bytes=archive.bytes,
        input_bytes=total,
        seconds=time.perf_counter() - start,
    )


def _copy(entry: Entry, packed: GzipBlocks, counter: ProgressCounter) -> None:
    remaining = size = entry.status.st_size
    with unchanged(entry) as descriptor:
        while remaining:
            count = read_into(descriptor, packed.space()[:remaining], entry)
            packed.filled(count)
            remaining -= count
            counter(count)
    packed.write(bytes(-size % tarfile.BLOCKSIZE))  # zeros up to the next block


# Two blocks of zeros end an archive, and tar fills up its last record with more.
_END_BYTES = 2 * tarfile.BLOCKSIZE


def _header(entry: Entry) -> bytes:
    """GNU format. Owner, time and mode say nothing about a model, and differ between computers.

    Every file is 0644 and every folder 0755, whatever the builder's umask: the container
    reads them as another user, and runs none of them.
    """
    header = tarfile.TarInfo(entry.name)
    if entry.is_folder:
        header.type = tarfile.DIRTYPE
        header.mode = 0o755
    else:
        header.size = entry.status.st_size
        header.mode = 0o644
    return header.tobuf(format=tarfile.GNU_FORMAT, encoding="utf-8", errors="strict")
