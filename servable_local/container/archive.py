"""model.tar.gz becomes a folder; what could reach outside that folder is refused."""

import gzip
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath


class ArchiveError(Exception):
    """The archive cannot be used. `str()` is a whole sentence."""


def unpack(archive: Path, folder: Path) -> None:
    """Writes the archive's files and folders below `folder`, with ordinary permissions.

    Raises `ArchiveError` for anything that is not a file or a folder inside the archive.
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                _unpack_member(archive, tar, member, folder)
    # A gzip cut short raises EOFError, a damaged one zlib.error: neither is a TarError.
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        raise ArchiveError(f"{archive}: not a readable .tar.gz ({error}); pack it again") from None
    except OSError as error:
        raise ArchiveError(f"{archive}: cannot be unpacked: {error}") from None


def _unpack_member(
    archive: Path, tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path
) -> None:
    refusal = _refusal(member)
    if refusal:
        raise ArchiveError(f"{archive}: {member.name!r} is {refusal}")
    target = folder / PurePosixPath(member.name)
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    content = tar.extractfile(member)
    assert content is not None  # only for what is no file, refused above
    target.parent.mkdir(parents=True, exist_ok=True)
    with content, target.open("wb") as file:
        shutil.copyfileobj(content, file)


def _refusal(member: tarfile.TarInfo) -> str | None:
    """Why this member stays out, and what to do; None for a harmless one."""
    name = PurePosixPath(member.name)
    if name.is_absolute():
        return "an absolute path; pack paths relative to the model's folder"
    if ".." in name.parts:
        return "a path with '..'; pack paths inside the model's folder"
    if member.issym() or member.islnk():
        return f"a link to {member.linkname!r}; pack the file itself"
    if not (member.isreg() or member.isdir()):
        return "a device or a pipe; pack files and folders only"
    return None
