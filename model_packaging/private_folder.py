"""Folders below .servable, which are for their owner alone: requests, logs, credentials, unpacked code."""

import os
from pathlib import Path

from model_packaging.places import MADE

# The rights of the group and of everybody else.
_OF_OTHERS = 0o077


def is_private(path: Path) -> bool:
    """Whether it lies below a folder .servable."""
    return MADE.name in path.parts


def private_folder(folder: Path) -> Path:
    """Makes `folder` and its parents, where missing. Raises `OSError`.

    Those from .servable down get mode 0700, whatever the umask is and whatever they had before.
    A folder outside of .servable was named by the user, and gets the rights that the umask gives.
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
    """Makes an empty file of mode 0600 where there is none, for a library that opens it itself."""
    file.touch(mode=0o600)


def private_opener(path: str, flags: int) -> int:
    """For `open(…, opener=private_opener)`: a file that is made has mode 0600."""
    return os.open(path, flags, 0o600)
