"""Write files whole, or not at all, also into folders below .servable, which are for their owner alone.

Those folders hold requests, logs, credentials, and unpacked code, can be made again, and are ignored by git.
"""

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

MADE = Path(".servable")
ARCHIVES = MADE / "archives"
"""Packed archives, by key."""
WHEELS = MADE / "wheels"
"""Wheels that a lock names."""
UNPACKED = MADE / "lib"
"""Unpacked wheels, by the lock's content."""
WARM_UPS = MADE / "warm-up"
"""Warm-up records written from golden requests, by their content."""


# The rights of the group and of everybody else.
_OF_OTHERS = 0o077


def is_private(path: Path) -> bool:
    """Return whether the path is inside a folder named .servable."""
    return MADE.name in path.parts


def create_private_folder(folder: Path) -> Path:
    """Create `folder` and its parents if they are missing. Raises `OSError`.

    Folders from .servable down get mode 0700, whatever mode they had. The umask decides about others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in (folder, *folder.parents):
        if not is_private(path):
            break
        status = path.stat()
        # Another owner's folder cannot be changed, and its rights are that owner's choice.
        if status.st_mode & _OF_OTHERS and status.st_uid == os.geteuid():
            path.chmod(status.st_mode & 0o7777 & ~_OF_OTHERS)
    return folder


def touch_private(file: Path) -> None:
    """Create an empty file of mode 0600 if missing, for a library that opens the file itself."""
    file.touch(mode=0o600)


def open_private(path: str, flags: int) -> int:
    """Open a file, as in `open(…, opener=open_private)`; a new file gets mode 0600."""
    return os.open(path, flags, 0o600)


# A pattern of our own, so that a user's file isn't deleted as a leftover.
PARTS = ".servable-*.part"


@contextmanager
def open_atomically(target: Path) -> Iterator[BinaryIO]:
    """Open a file to write, and rename it to `target` if the block ends without an error.

    Raises OSError. The file is on the disk before it gets its name, so it is complete even after a
    power cut. The next writer deletes the files of killed writers: a lock, which ends with its process,
    marks the file of an active one.
    """
    create_private_folder(target.parent)
    _delete_leftovers(target.parent)
    part, file = _create_part(target.parent)
    with file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    _sync_folder(target.parent)


def write_atomically(target: Path, content: bytes) -> None:
    """Write a whole file, or none. Raises OSError."""
    with open_atomically(target) as file:
        file.write(content)


def suggest_write_fix(error: OSError, folder: Path) -> str:
    """Return what to do about a file that could not be written into `folder`."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"make room in {folder}"
    if error.errno == errno.EFBIG:
        return "raise the limit on the size of files (ulimit -f)"
    return f"let this user write into {folder}"


def _create_part(folder: Path) -> tuple[Path, BinaryIO]:
    while True:
        part = folder / PARTS.replace("*", secrets.token_hex(8))
        # Outside of .servable, the umask decides, as for other programs' files.
        mode = 0o600 if is_private(folder) else 0o666
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        file = os.fdopen(descriptor, "wb")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return part, file
        file.close()  # a different writer deleted it before it was locked


def _delete_leftovers(folder: Path) -> None:
    for part in folder.glob(PARTS):
        try:
            with part.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink(missing_ok=True)
        except OSError:
            pass  # its writer is active, or it belongs to a different user


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # some network file systems can't; the file itself is on the disk
    finally:
        os.close(descriptor)
