"""Folders and files that are for their owner alone: models, logs, the secret of a run."""

import os
from pathlib import Path


def private_folder(folder: Path) -> None:
    """There, and open to its owner only, also where an earlier release made it. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def private_opener(path: str, flags: int) -> int:
    """Opener for `open(…, opener=private_opener)`: sets mode 0600, on an existing file too."""
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor
