"""Unpacks wheels into the folder that the container puts on its import path."""

import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from model_packaging.private_folder import private_folder
from model_packaging.refusal import PackagingError

# Parts of a wheel's .data folder that are imported. Scripts, headers and data have no place
# in the container's code/lib. https://packaging.python.org/en/latest/specifications/binary-distribution-format/
IMPORTED = ("purelib", "platlib")


def unpack(wheels: Sequence[Path], target: Path) -> None:
    """Unpacks all of them into `target`, made beside it and renamed when whole. Raises `PackagingError`.

    No installer's traces: the same wheels give the same files, on any machine.
    """
    private_folder(target.parent)
    beside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}."))
    try:
        for wheel in wheels:
            _unpack(wheel, beside)
        beside.rename(target)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        if target.is_dir():
            return  # another process was first: the same wheels, the same files
        raise


def _unpack(wheel: Path, target: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as opened:
            for name in opened.namelist():
                _extract(opened, name, target, wheel)
    # What a damaged, an encrypted and an oddly compressed archive raise.
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise PackagingError(
            wheel, f"cannot be unpacked: {error}", "do not use this wheel"
        ) from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        problem = f"has a file where it, or another wheel, has a folder: {error.filename}"
        raise PackagingError(wheel, problem, "use one of the two packages") from None


def _extract(wheel: zipfile.ZipFile, name: str, target: Path, file: Path) -> None:
    parts = PurePosixPath(name).parts
    if name.endswith("/") or not parts:
        return
    if ".." in parts or PurePosixPath(name).is_absolute():
        raise PackagingError(
            file, f"holds a file that leaves its folder: {name}", "do not use this wheel"
        )
    if parts[0].endswith(".data"):
        if len(parts) < 3 or parts[1] not in IMPORTED:
            return
        parts = parts[2:]
    place = target.joinpath(*parts)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(wheel.read(name))
