"""Folders and files that are for their owner alone: models, logs, the secret of a run."""

import os
from pathlib import Path


def private_folder(folder: Path) -> None:
    """There, and open to its owner only, also where an earlier release made it. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def write_beside(file: Path, text: str) -> None:
    """Write a whole file for its owner alone: who reads it sees the old or the new. Raises OSError."""
    beside = file.with_suffix(".part")
    beside.unlink(missing_ok=True)  # its mode could be another's
    with open(beside, "x", encoding="utf-8", opener=private_opener) as opened:
        opened.write(text)
    beside.replace(file)


def private_opener(path: str, flags: int) -> int:
    """Opener for `open(…, opener=private_opener)`: sets mode 0600, on an existing file too."""
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor
