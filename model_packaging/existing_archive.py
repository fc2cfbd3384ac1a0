"""Reads an existing archive: lists its entries, and unpacks the files to check.

The archive is read once, as a stream. Only the files that are checked are unpacked; the others
become holes of their size, so that 40 GB of weights take no room.
"""

import errno
import gzip
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tarfile import ReadError, TarFile
from typing import IO, Self

from isal import igzip, igzip_lib, isal_zlib

from model_packaging.beside import suggest_write_fix
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.variables import MOST_CHECKED_BYTES

# The stubs declare an instance instead of the class.
_IsalError: type[Exception] = igzip_lib.IsalError  # type: ignore[assignment]
# windowBits of zlib for a gzip header and trailer.
_GZIP = 16 + isal_zlib.MAX_WBITS
# Errors of tarfile that its stubs leave out.
_BAD_HEADER: tuple[type[Exception], ...] = (
    tarfile.InvalidHeaderError,  # type: ignore[attr-defined]
    tarfile.TruncatedHeaderError,  # type: ignore[attr-defined]
)
_CHUNK_BYTES = 1 << 20
# Protobuf's own limit; TensorFlow reads no larger graph. https://protobuf.dev/programming-guides/proto-limits/
_MOST_GRAPH_BYTES = 1 << 31
# Files in more folders than these are listed, but not unpacked: what is checked lies near the top.
_MOST_FOLDERS = 100
# A truncated gzip raises EOFError, a damaged one isal's own error: neither is a TarError.
_DAMAGE = (*(tarfile.TarError, EOFError, zlib.error), *(gzip.BadGzipFile, _IsalError, ValueError))
_AGAIN = "pack it again"
_READ = frozenset({"saved_model.pb", "variables.index", "tf_serving_warmup_requests"})
# Larger assets, and larger files of variables, are not looked into.
MOST_ASSET_BYTES = 1 << 26


@dataclass(frozen=True)
class Member:
    """One entry of an archive, as the archive describes it."""

    name: str
    bytes: int
    kind: str
    """"file", "folder", "link to …", or another kind, which is rejected."""

    @property
    def display_name(self) -> str:
        """Return the name on one line, with characters escaped if any isn't printable."""
        return self.name if self.name.isprintable() else ascii(self.name)[1:-1]


class _Header(tarfile.TarInfo):
    """A tar header that raises an error if it is damaged; tarfile takes it for the archive's end."""

    @classmethod
    def fromtarfile(cls, tarfile: TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except _BAD_HEADER as error:
            raise ReadError(f"damaged header: {error}") from None


def list_members(archive: Path) -> list[Member]:
    """Return every entry of the archive, in the archive's order. Raises `PackagingError`."""
    with _open_archive(archive) as tar:
        return [Member(entry.name, entry.size, _classify_entry(entry)) for entry in tar]


def unpack_checked_files(archive: Path, folder: Path) -> list[Member]:
    """Unpack into `folder` the files that are checked, and return the entries.

    Entries that could reach outside the folder, and entries other than files and folders, are only
    listed. Raises `PackagingError` if the archive can't be read to its end.
    """
    members: list[Member] = []
    seen: set[str] = set()
    with _open_archive(archive) as tar:
        for entry in tar:
            name = "/".join(PurePosixPath(entry.name).parts)
            kind = _classify_entry(entry)
            if name in seen and kind == "file":
                kind = "second file of that name"
            seen.add(name)
            members.append(Member(entry.name, entry.size, kind))
            content = tar.extractfile(entry) if kind == "file" else None
            if content is not None and name.count("/") < _MOST_FOLDERS:
                with _explain_unpack_errors(archive, members[-1], folder):
                    _write_member(folder / name, entry.size, content)
    return members


@contextmanager
def _open_archive(archive: Path) -> Iterator[tarfile.TarFile]:
    """Open the archive, and read it to its very end when the block ends: the CRC is there."""
    try:
        with igzip.open(archive, "rb") as unzipped:
            with tarfile.open(fileobj=unzipped, mode="r|", tarinfo=_Header) as tar:
                yield tar
            while unzipped.read(_CHUNK_BYTES):
                pass
    except _DAMAGE as error:
        raise PackagingError(archive, f"is not a complete .tar.gz ({error})", _AGAIN) from None
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise PackagingError(archive, problem, "check its path") from None


@contextmanager
def _explain_unpack_errors(archive: Path, member: Member, folder: Path) -> Iterator[None]:
    try:
        yield
    except gzip.BadGzipFile:  # an OSError about the archive, which `_open_archive` reports
        raise
    except OSError as error:
        problem = f"{member.display_name:.200} cannot be unpacked: {error.strerror or error}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = f"make room in {folder}, or set TMPDIR to a different folder"
        else:
            remedy = suggest_write_fix(error, folder) if error.errno == errno.EFBIG else _AGAIN
        raise PackagingError(archive, problem, remedy) from None


def _classify_entry(entry: tarfile.TarInfo) -> str:
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


def _write_member(target: Path, size: int, content: IO[bytes]) -> None:
    """Write the content of a file that is checked, or a hole of its size for any other file."""
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
    """The unpacked size of a gzip stream; `bytes` becomes None if the stream isn't gzip."""

    def __init__(self) -> None:
        self._member = isal_zlib.decompressobj(_GZIP)
        self.bytes: int | None = 0

    def add_data(self, data: bytes) -> None:
        try:
            while data and self.bytes is not None:
                self.bytes += len(self._member.decompress(data))
                data = self._member.unused_data
                if self._member.eof:
                    self._member = isal_zlib.decompressobj(_GZIP)
        except _IsalError:
            self.bytes = None
