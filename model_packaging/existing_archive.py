"""An archive that is there already: what is in it, and whether the container would serve it.

Read once, as a stream. Of the files only those that are looked into are unpacked; the others
become holes of their size, so that 40 GB of weights take no room.
"""

import errno
import gzip
import hashlib
import io
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tarfile import ReadError, TarFile
from typing import IO, TYPE_CHECKING, BinaryIO, Self

from isal import igzip, igzip_lib, isal_zlib

from model_packaging.beside import remedy_for_write
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.variables import MOST_CHECKED_BYTES

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# Its stubs take the class for an instance.
_IsalError: type[Exception] = igzip_lib.IsalError  # type: ignore[assignment]


# A gzip header and trailer, as zlib's windowBits say it.
_GZIP = 16 + isal_zlib.MAX_WBITS


# tarfile's own, which its stubs leave out.
BadHeader: tuple[type[Exception], ...] = (
    tarfile.InvalidHeaderError,  # type: ignore[attr-defined]
    tarfile.TruncatedHeaderError,  # type: ignore[attr-defined]
)
_CHUNK_BYTES = 1 << 20
# Protobuf's own limit; TensorFlow reads no larger graph. https://protobuf.dev/programming-guides/proto-limits/
_MOST_GRAPH_BYTES = 1 << 31
# What counts lies near the top; deeper than this is listed, and not unpacked.
_MOST_FOLDERS = 100
_AGAIN = "pack it again"
_READ = frozenset({"saved_model.pb", "variables.index", "tf_serving_warmup_requests"})
# Larger assets, and larger files of variables, are not looked into.
MOST_ASSET_BYTES = 1 << 26


@dataclass(frozen=True)
class Member:
    """One entry of an archive, as it says of itself."""

    name: str
    bytes: int
    kind: str
    """"file", "folder", "link", or what else must not be there."""

    @property
    def shown(self) -> str:
        """The name on one line, whatever a terminal would make of what is in it."""
        return self.name if self.name.isprintable() else ascii(self.name)[1:-1]


class _Header(tarfile.TarInfo):
    """tarfile takes a damaged header, unless it is the first, for the end of the archive."""

    @classmethod
    def fromtarfile(cls, tarfile: TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except BadHeader as error:
            raise ReadError(f"damaged header: {error}") from None


class Hashing(io.RawIOBase):
    """A file that hashes what is read from it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, space: "WriteableBuffer") -> int:
        view = memoryview(space).cast("B")
        data = self._file.read(len(view))
        view[: len(data)] = data
        self._digest.update(data)
        return len(data)

    def sha256(self) -> str:
        return self._digest.hexdigest()


def listing(archive: Path) -> list[Member]:
    """Every entry, in the archive's order. Raises `PackagingError`."""
    with _opened(archive) as (tar, _):
        return [Member(entry.name, entry.size, _kind(entry)) for entry in tar]


def unpack_what_counts(archive: Path, folder: Path) -> tuple[list[Member], str]:
    """Return entries and SHA-256; write into `folder` the files that tell whether it can be served.

    What could reach outside the folder, or is no file or folder, is listed and left out.
    Raises `PackagingError` where the archive itself cannot be read to its end.
    """
    members: list[Member] = []
    seen: set[str] = set()
    with _opened(archive) as (tar, hashing):
        for entry in tar:
            name = "/".join(PurePosixPath(entry.name).parts)
            kind = _kind(entry)
            if name in seen and kind == "file":
                kind = "second file of that name"
            seen.add(name)
            members.append(Member(entry.name, entry.size, kind))
            content = tar.extractfile(entry) if kind == "file" else None
            if content is not None and name.count("/") < _MOST_FOLDERS:
                with _unpacking(archive, members[-1], folder):
                    _write(folder / name, entry.size, content)
    return members, hashing.sha256()


@contextmanager
def _opened(archive: Path) -> Iterator[tuple[tarfile.TarFile, Hashing]]:
    """The archive, read to its very end when the block is left: the CRC stands there."""
    try:
        with archive.open("rb") as file:
            hashing = Hashing(file)
            with igzip.open(hashing, "rb") as unzipped:
                with tarfile.open(fileobj=unzipped, mode="r|", tarinfo=_Header) as tar:
                    yield tar, hashing
                while unzipped.read(_CHUNK_BYTES):
                    pass
            while hashing.read(_CHUNK_BYTES):
                pass
    # A gzip cut short raises EOFError, a damaged one isal's own error: neither is a TarError.
    except (
        tarfile.TarError,
        EOFError,
        zlib.error,
        gzip.BadGzipFile,
        _IsalError,
        ValueError,
    ) as error:
        raise PackagingError(archive, f"is not a whole .tar.gz ({error})", _AGAIN) from None
    except OSError as error:
        raise PackagingError(
            archive, f"cannot be read: {error.strerror or error}", "check its path"
        ) from None


@contextmanager
def _unpacking(archive: Path, member: Member, folder: Path) -> Iterator[None]:
    try:
        yield
    except gzip.BadGzipFile:  # an OSError about the archive, which `_opened` reports
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "make room there, or set TMPDIR to another folder"
            raise PackagingError(folder, f"cannot be written: {error.strerror}", remedy) from None
        if error.errno == errno.EFBIG:
            problem = f"{member.shown:.200} cannot be unpacked: {error.strerror}"
            raise PackagingError(archive, problem, remedy_for_write(error, folder)) from None
        problem = f"{member.shown:.200} cannot be unpacked: {error.strerror or error}"
        raise PackagingError(archive, problem, _AGAIN) from None


def _kind(entry: tarfile.TarInfo) -> str:
    name = PurePosixPath(entry.name)
    if name.is_absolute():
        return "file with an absolute name"
    if ".." in name.parts:
        return "file with .. in its name"
    if entry.issym() or entry.islnk():
        return f"link to {entry.linkname}"
    if entry.isdir():
        return "folder"
    return "file" if entry.isreg() else "device or pipe"


def _write(target: Path, size: int, content: IO[bytes]) -> None:
    """The content where it is looked into, a hole of its size where it is not."""
    target.parent.mkdir(parents=True, exist_ok=True)
    looked_into = target.name in _READ or "code" in target.parts
    looked_into |= "assets" in target.parts and size <= MOST_ASSET_BYTES
    looked_into |= target.name.startswith("variables.data") and size <= MOST_CHECKED_BYTES
    with target.open("wb") as file:
        if not looked_into or size > _MOST_GRAPH_BYTES:
            file.truncate(size)
            return
        while data := content.read(_CHUNK_BYTES):
            file.write(data)


class UnpackedSize:
    """Unpacked size of a gzip stream, counted as its bytes pass by.

    `bytes` is None once the stream turned out not to be gzip.
    """

    def __init__(self) -> None:
        self._member = isal_zlib.decompressobj(_GZIP)
        self.bytes: int | None = 0

    def take(self, data: bytes) -> None:
        try:
            while data and self.bytes is not None:
                self.bytes += len(self._member.decompress(data))
                data = self._member.unused_data
                if self._member.eof:
                    self._member = isal_zlib.decompressobj(_GZIP)
        except _IsalError:
            self.bytes = None
