"""Pack model.tar.gz: the same inputs give the same bytes on any computer, at any time.

Every core compresses, hashes, and writes while the caller reads on. ISA-L may compress differently on
processors without SSE4.2; the key depends only on the inputs. Synth writes the request
(`build_command`), and publishing packs the archive (`publish`).
"""

import errno
import fcntl
import hashlib
import json
import mmap
import os
import sys
import tarfile
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from isal import igzip_threaded
from pydantic import TypeAdapter

from model_packaging.beside import open_atomically, suggest_write_fix
from model_packaging.inputs import ArchiveInputs, compute_key_tree_and_hashes
from model_packaging.refusal import PackagingError
from model_packaging.tree import Entry, Progress, ProgressCounter, Tree, open_unchanged, read_into

# Bypasses the page cache where the file system can: writing through it costs packing a third of
# its time (0.2 s of 0.7 s for 400 MB), and the fsync at the end another tenth.
_O_DIRECT = getattr(os, "O_DIRECT", 0)
# A multiple of every disk's block; mmap aligns it, as O_DIRECT requires.
BUFFER_BYTES = 1 << 20
# One is filled, one hashed, one written, one waits.
_BUFFERS = 4


# Level 2 of ISA-L's 0 to 3 compresses weights like zlib's default at a twentieth of its time;
# level 3 takes 2.5 times as long for the same size (measured on float32 weights).
COMPRESSION_LEVEL = 2
# A block fits a core's cache; four times as much saves 0.02 % of the size.
BLOCK_BYTES = 1 << 18
# One thread reads, hashes and writes; it cannot keep more than this busy.
MOST_THREADS = 8


class GzipBlocks:
    """A gzip stream of one member, written to `file` in order by one other thread.

    Only the size of the data decides where a block ends, so the number of threads and the length of
    each `write` don't change the bytes. Raises the errors of `file`.
    """

    def __init__(self, file: Any, *, threads: int | None = None) -> None:
        self._gzip = igzip_threaded.open(
            file,
            "wb",
            compresslevel=COMPRESSION_LEVEL,
            threads=threads or min(MOST_THREADS, os.cpu_count() or 1),
            block_size=BLOCK_BYTES,
        )
        self._block = bytearray(BLOCK_BYTES)
        self._filled = 0
        self.size = 0
        """Bytes written so far, before compression."""

    def __enter__(self) -> "GzipBlocks":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._gzip.write(memoryview(self._block)[: self._filled])
        finally:
            try:
                self._gzip.close()
            except Exception:
                if kind is None:
                    raise  # otherwise the first error says more

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            space = self.view_free_space()
            count = min(len(space), len(rest))
            space[:count] = rest[:count]
            self.mark_filled(count)
            rest = rest[count:]

    def view_free_space(self) -> memoryview:
        """Return the free space for the next bytes. Then call `mark_filled` with their number."""
        return memoryview(self._block)[self._filled :]

    def mark_filled(self, count: int) -> None:
        self._filled += count
        self.size += count
        if self._filled == BLOCK_BYTES:
            self._gzip.write(self._block)
            self._filled = 0


class HashedFile:
    """A writer for an open, empty file that also hashes the bytes. Raises the errors of the disk."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._digest = hashlib.sha256()
        # Hashing takes a fifth of packing's time and writing waits for the disk: a thread each.
        self._hashing = ThreadPoolExecutor(1, thread_name_prefix="sha256")
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="write")
        self._free = [mmap.mmap(-1, BUFFER_BYTES) for _ in range(_BUFFERS)]
        self._busy: deque[tuple[mmap.mmap, Future[None], Future[None]]] = deque()
        self._buffer = self._free.pop()
        self._filled = 0
        self.bytes = 0
        """Bytes written so far."""

    def __enter__(self) -> "HashedFile":
        _set_direct_io(self._descriptor, on=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._submit()
                while self._busy:
                    self._wait_for_oldest()
        finally:
            for pool in (self._hashing, self._writing):
                pool.shutdown(wait=True, cancel_futures=kind is not None)
            _set_direct_io(self._descriptor, on=False)

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        self.bytes += len(rest)
        while rest:
            count = min(BUFFER_BYTES - self._filled, len(rest))
            self._buffer[self._filled : self._filled + count] = rest[:count]
            self._filled += count
            rest = rest[count:]
            if self._filled == BUFFER_BYTES:
                self._submit()

    def flush(self) -> None:
        """Do nothing: igzip calls this method after its last `write`."""

    def compute_sha256(self) -> str:
        """Return the SHA-256 of all bytes written, as 64 hex digits, after the `with` block."""
        return self._digest.hexdigest()

    def _submit(self) -> None:
        view = memoryview(self._buffer)[: self._filled]
        hashed = self._hashing.submit(self._digest.update, view)
        written = self._writing.submit(_write_all, self._descriptor, view)
        self._busy.append((self._buffer, hashed, written))
        if not self._free:
            self._wait_for_oldest()
        self._buffer = self._free.pop()
        self._filled = 0

    def _wait_for_oldest(self) -> None:
        buffer, hashed, written = self._busy.popleft()
        hashed.result()
        written.result()
        self._free.append(buffer)


def _write_all(descriptor: int, data: memoryview) -> None:
    if len(data) % BUFFER_BYTES:
        _set_direct_io(descriptor, on=False)  # the last piece isn't a multiple of a disk block
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except OSError as error:
            is_direct = fcntl.fcntl(descriptor, fcntl.F_GETFL) & _O_DIRECT
            if error.errno != errno.EINVAL or not is_direct:
                raise
            _set_direct_io(descriptor, on=False)  # accepted as a flag, rejected as a write


def _set_direct_io(descriptor: int, *, on: bool) -> None:
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | _O_DIRECT if on else flags & ~_O_DIRECT)
    except OSError:
        pass  # the file system can't; then the page cache is used


# Linux stamps files with a clock that moves every 1 to 10 ms.
CLOCK_STEP_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class Packed:
    """An archive that is completely written to the disk."""

    path: Path
    sha256: str
    """SHA-256 of the archive, as 64 hex digits."""
    bytes: int
    input_bytes: int
    seconds: float


def pack(inputs: ArchiveInputs, target: Path, *, progress: Progress | None = None) -> Packed:
    """Write the archive to a temporary file and rename the file to `target`. Raises `PackagingError`."""
    return pack_tree(inputs.build_tree(), target, progress=progress)


def pack_tree(tree: Tree, target: Path, *, progress: Progress | None = None) -> Packed:
    """Pack inputs that are already listed. Raises `PackagingError`, also if a file has changed since."""
    start = time.perf_counter()
    # A file changed in the last tick could change again without a new time.
    ago = time.time() - max((entry.status.st_ctime for entry in tree.files), default=0.0)
    if 0 <= ago < CLOCK_STEP_SECONDS:
        time.sleep(CLOCK_STEP_SECONDS - ago)
    counter = ProgressCounter(progress, tree.input_bytes)
    try:
        with (
            open_atomically(target) as file,
            HashedFile(file.fileno()) as archive,
            GzipBlocks(archive) as packed,
        ):
            for entry in tree.entries:
                packed.write(_build_header(entry))
                if not entry.is_folder:
                    _copy_content(entry, packed, counter)
            packed.write(bytes(_END_BYTES + -(packed.size + _END_BYTES) % tarfile.RECORDSIZE))
    except OSError as error:
        remedy = f"{suggest_write_fix(error, target.parent)}, and try again"
        raise PackagingError(target, f"cannot be written: {error.strerror}", remedy) from None
    return Packed(
        path=target,
        sha256=archive.compute_sha256(),
        bytes=archive.bytes,
        input_bytes=tree.input_bytes,
        seconds=time.perf_counter() - start,
    )


def _copy_content(entry: Entry, packed: GzipBlocks, counter: ProgressCounter) -> None:
    remaining = size = entry.status.st_size
    with open_unchanged(entry) as descriptor:
        while remaining:
            count = read_into(descriptor, packed.view_free_space()[:remaining], entry)
            packed.mark_filled(count)
            remaining -= count
            counter(count)
    packed.write(bytes(-size % tarfile.BLOCKSIZE))  # zeros up to the next block


# Two blocks of zeros end an archive, and tar fills up its last record with more.
_END_BYTES = 2 * tarfile.BLOCKSIZE


def _build_header(entry: Entry) -> bytes:
    """Return an entry's tar header in GNU format, without owner, time, and original mode.

    These say nothing about a model, and they differ between computers. Every file gets mode 0644
    and every folder 0755, whatever the builder's umask: the container reads them as a different
    user, and runs none of them.
    """
    header = tarfile.TarInfo(entry.name)
    if entry.is_folder:
        header.type = tarfile.DIRTYPE
        header.mode = 0o755
    else:
        header.size = entry.status.st_size
        header.mode = 0o644
    return header.tobuf(format=tarfile.GNU_FORMAT, encoding="utf-8", errors="strict")


def build_command(inputs: ArchiveInputs, *, expected_key: str, archives: Path) -> list[str]:
    """Return the command that packs these inputs. The CDK CLI runs it only when it publishes."""
    request = {"key": expected_key, **asdict(inputs), "archives": archives}
    return [sys.executable, str(Path(__file__).parent), json.dumps(request, default=str)]


def provide_archive(request: dict[str, Any]) -> Path:
    """Return the path of a request's archive; pack it if it doesn't exist. Raises `PackagingError`."""
    inputs = TypeAdapter(ArchiveInputs).validate_python(request)
    archives = Path(request["archives"])
    key, tree, _ = compute_key_tree_and_hashes(inputs, cache=archives.parent)
    # The template already names the object after this key.
    if key != request["key"]:
        problem = "changed between synth and publishing"
        raise PackagingError(inputs.servables[0].folder, problem, "deploy again")
    target = archives / f"{key}.tar.gz"
    if not target.exists():
        pack_tree(tree, target)
    return target
