"""Unpacking of model.tar.gz, and what the container finds in its folder: models and code.

Whatever could reach outside that folder is rejected.
Source: find_models and find_model_versions in the image's start script,
https://github.com/aws/deep-learning-containers (tensorflow/inference/docker/build_artifacts)
"""

import errno
import gzip
import re
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

# Python walks and removes folders recursively, and keeps a file open for each.
_MOST_FOLDERS = 100
_PART_BYTES = 8 << 20


class ArchiveError(Exception):
    """The error of an archive that cannot be used. `str()` is a whole sentence."""


def unpack(
    archive: Path, folder: Path, *, progress: Callable[[int, int], None] = lambda read, size: None
) -> None:
    """Write the archive's files and folders below `folder`, with ordinary permissions.

    `progress`: called after each part with the bytes that are read of the archive, and its size.
    Raises `ArchiveError` for anything that is not a file or a folder inside the archive.
    """
    try:
        with archive.open("rb") as packed, tarfile.open(fileobj=packed, mode="r:gz") as tar:
            size = archive.stat().st_size
            for member in tar:
                if refusal := _explain_rejection(member):
                    raise ArchiveError(f"{archive}: {member.name!r:.200} is {refusal}")
                target = folder / PurePosixPath(member.name)
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                content = tar.extractfile(member)
                assert content is not None  # it is a file
                target.parent.mkdir(parents=True, exist_ok=True)
                with content, target.open("wb") as file:
                    while part := content.read(_PART_BYTES):
                        file.write(part)
                        progress(packed.tell(), size)
    # A gzip cut short raises EOFError, a damaged one zlib.error: neither is a TarError.
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        raise ArchiveError(f"{archive}: not a readable .tar.gz ({error}); pack it again") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "make room there, or set TMPDIR to another folder"
            raise ArchiveError(f"{folder}: cannot be written: {error.strerror}; {remedy}") from None
        remedy = ""
        if error.errno == errno.EFBIG:
            remedy = "; raise the limit on the size of files (ulimit -f)"
        raise ArchiveError(f"{archive}: cannot be unpacked: {error}{remedy}") from None


def _explain_rejection(member: tarfile.TarInfo) -> str | None:
    """Return why this member is rejected, and what to do; None for a harmless one."""
    name = PurePosixPath(member.name)
    if name.is_absolute():
        return "an absolute path; use paths relative to the model's folder"
    if len(name.parts) > _MOST_FOLDERS:
        return f"nested deeper than {_MOST_FOLDERS} folders; use fewer levels"
    if ".." in name.parts:
        return "a path with '..'; use paths inside the model's folder"
    if member.issym() or member.islnk():
        return f"a link to {member.linkname!r}; pack the file itself"
    if not (member.isreg() or member.isdir()):
        return "a device or a pipe; pack only files and folders"
    return None


# The image unpacks into /opt/ml/model, and a model is named after the folder of its versions.
NAME_OF_A_MODEL_AT_THE_ROOT = "model"


class LayoutError(Exception):
    """The error of an archive without a model that the container would find. `str()` is a sentence."""


@dataclass(frozen=True)
class CompiledPackages:
    """An archive's compiled packages: folders to search before code/lib, and problems as sentences."""

    paths: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class ArchiveCode:
    """The archive's code/ folder. `inference`: None with only lib/ or requirements.txt."""

    folder: Path
    inference: Path | None
    packages: CompiledPackages = field(default_factory=CompiledPackages)

    @property
    def import_paths(self) -> list[Path]:
        """Return the folders that Gunicorn puts on the path; `packages` precede the lib/ they replace."""
        paths = (self.folder, *self.packages.paths, self.folder / "lib")
        return [path for path in paths if path.is_dir()]


def find_models(root: Path, *, takes_zero: bool = True) -> dict[str, dict[int, Path]]:
    """Return {model name: {version: folder of its SavedModel}}.

    Raises `LayoutError` without a model, for a version's folder without a saved_model.pb, and for
    version 0 unless the image takes it (`takes_zero`), as it does since 2.20.
    """
    models: dict[str, dict[int, Path]] = {}
    for saved_model in sorted(root.rglob("saved_model.pb")):
        version = saved_model.parent
        # A root with a number as its name isn't a version.
        if version == root or not re.fullmatch(r"[0-9]+", version.name):
            continue
        if int(version.name) == 0 and not takes_zero:
            raise LayoutError(
                f"{saved_model.relative_to(root).as_posix()}: images before 2.20 don't accept version 0; "
                "number versions from 1"
            )
        holder = version.parent
        name = NAME_OF_A_MODEL_AT_THE_ROOT if holder == root else holder.name
        models.setdefault(name, {})[int(version.name)] = version
        # The container names every such folder to the model server, and waits for all of them.
        for other in sorted(holder.glob("[0-9]*")):
            if other.name.isdecimal() and not (other / "saved_model.pb").exists():
                raise LayoutError(
                    f"{other.relative_to(root).as_posix()} has no saved_model.pb; the container would wait "
                    "for this version and then exit; remove the folder, or export the SavedModel into it"
                )
    if not models:
        there = (file.relative_to(root) for file in root.rglob("*") if file.is_file())
        files = sorted(file.as_posix() for file in there)
        more = f" and {len(files) - 5} more" if len(files) > 5 else ""
        raise LayoutError(
            f"no <version>/saved_model.pb in the archive, with a version of digits only; it contains "
            f"{', '.join(files[:5]) or 'nothing'}{more}; pack 1/saved_model.pb or MODEL/1/saved_model.pb"
        )
    return models


def find_code(root: Path) -> ArchiveCode | None:
    """Return the code that enables Gunicorn; without it NGINX talks to the model server itself."""
    folder = root / "code"
    inference = folder / "inference.py"
    if not any(path.exists() for path in (inference, folder / "lib", folder / "requirements.txt")):
        return None
    return ArchiveCode(folder, inference if inference.exists() else None)
