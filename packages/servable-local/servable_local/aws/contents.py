"""Contents of S3 objects: pieces of files on disk, or a few bytes in memory.

moto keeps every object in its own file object, and copies all of it for each range, copy, and
part: a model of 3 GB took minutes and 6 GB of memory. Here, slices, copies, and joined parts are
views of the same files, and checksums are computed while a body is received.
"""

import base64
import contextlib
import hashlib
import os
import tempfile
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, Self

from servable_local.aws.signed_request import ReceivedRequest

# Key of a request's environment for the content of an object, instead of its body.
ENVIRON = "servable.content"
# Longer bodies are written to the disk while they are received.
IN_MEMORY_BYTES = 64 << 10
_CHUNK_BYTES = 1 << 20


class Sum(Protocol):
    """A checksum that is being computed."""

    def update(self, part: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


class _Crc32:
    def __init__(self) -> None:
        self._sum = 0

    def update(self, part: bytes, /) -> None:
        self._sum = zlib.crc32(part, self._sum)

    def digest(self) -> bytes:
        return self._sum.to_bytes(4, "big")


def create_sum(algorithm: str) -> Sum:
    """Create a checksum by its S3 header name, or MD5 as in ETags.

    As in moto without further packages, other CRCs are CRC32, and unknown algorithms SHA256.
    """
    if algorithm.startswith("CRC"):
        return _Crc32()
    name = algorithm.lower() if algorithm in ("MD5", "SHA1") else "sha256"
    return hashlib.new(name, usedforsecurity=False)


class StoredFile:
    """A file in a folder, deleted with the last content that has a piece of it."""

    def __init__(self, folder: Path) -> None:
        descriptor, name = tempfile.mkstemp(dir=folder)
        os.close(descriptor)
        self.path = Path(name)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink()


@dataclass(frozen=True)
class _Piece:
    """`length` bytes from `start` of a file, or of bytes in memory."""

    source: StoredFile | bytes
    start: int
    length: int

    def read_chunks(self) -> Iterator[bytes]:
        if isinstance(self.source, bytes):
            yield self.source[self.start : self.start + self.length]
            return
        with self.source.path.open("rb", buffering=0) as file:
            at, end = self.start, self.start + self.length
            while chunk := os.pread(file.fileno(), min(_CHUNK_BYTES, end - at), at):
                yield chunk
                at += len(chunk)


class ObjectContent:
    """Immutable bytes. Slicing copies nothing; iterating yields them chunk by chunk."""

    def __init__(self, pieces: Sequence[_Piece], sums: dict[str, bytes] | None = None) -> None:
        self._pieces = tuple(piece for piece in pieces if piece.length)
        self._length = sum(piece.length for piece in self._pieces)
        self._sums = dict(sums or {})
        self._joining = threading.Lock()

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        return cls([_Piece(body, 0, len(body))])

    @classmethod
    def join(cls, contents: Iterable["ObjectContent"]) -> Self:
        """Join contents in order."""
        return cls([piece for content in contents for piece in content._pieces])

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, part: slice) -> "ObjectContent":
        """Return a slice, without support for a step."""
        start, stop, _ = part.indices(self._length)
        pieces, at = [], 0
        for piece in self._pieces:
            first, last = max(start - at, 0), min(stop - at, piece.length)
            if first < last:
                pieces.append(_Piece(piece.source, piece.start + first, last - first))
            at += piece.length
        return ObjectContent(pieces)

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            yield from piece.read_chunks()

    def __bytes__(self) -> bytes:
        return b"".join(self)

    def compute_digest(self, algorithm: str) -> bytes:
        """Compute the checksum of the content once, and return it."""
        if algorithm not in self._sums:
            total = create_sum(algorithm)
            for chunk in self:
                total.update(chunk)
            self._sums[algorithm] = total.digest()
        return self._sums[algorithm]

    def encode_checksum(self, algorithm: str) -> str:
        """Return the checksum of the content in base64, as in S3's headers."""
        return base64.b64encode(self.compute_digest(algorithm)).decode()

    def link(self, target: Path) -> None:
        """Create `target` on the same disk as a hard link, so that nothing is copied.

        Content in several files, such as the parts of an upload, becomes one file first, once.
        """
        with self._joining:
            sources = (piece.source for piece in self._pieces)
            files = [source for source in sources if isinstance(source, StoredFile)]
            if not files:
                target.write_bytes(bytes(self))
                return
            if files[0].path.stat().st_size != self._length or len(self._pieces) > 1:
                whole = StoredFile(files[0].path.parent)
                with whole.path.open("wb") as file:
                    file.writelines(self)
                self._pieces = (_Piece(whole, 0, self._length),)
                files = [whole]
        os.link(files[0].path, target)


def is_object_upload(request: ReceivedRequest) -> bool:
    """Return whether the request's body may be an S3 object or a part of one."""
    return request.method == "PUT" and request.claimed_service == "s3"


def receive_object(
    folder: Path, request: ReceivedRequest, stream: IO[bytes], length: int
) -> ObjectContent:
    """Store `length` bytes of `stream`, or fewer if it ends. Raises OSError for a full disk.

    After an error, the rest of the body is read, because a client that still sends would miss
    the response, and what was written is deleted. MD5, SHA256, and the checksums that the
    request's headers specify are computed meanwhile.
    """
    named = request.find_header("x-amz-sdk-checksum-algorithm")
    prefix = "x-amz-checksum-"
    specified = {named.upper()} if named else set()
    specified |= {name.removeprefix(prefix).upper() for name in request.names if prefix in name}
    sums = {name: create_sum(name) for name in {"MD5", "SHA256"} | specified & {"SHA1", "CRC32"}}
    file, done = StoredFile(folder), 0
    try:
        with file.path.open("wb") as target:
            while chunk := stream.read(min(_CHUNK_BYTES, length - done)):
                done += len(chunk)
                for total in sums.values():
                    total.update(chunk)
                target.write(chunk)
    except OSError:
        file.path.unlink()
        while chunk := stream.read(min(_CHUNK_BYTES, length - done)):
            done += len(chunk)
        raise
    digests = {name: total.digest() for name, total in sums.items()}
    return ObjectContent([_Piece(file, 0, done)], digests)
