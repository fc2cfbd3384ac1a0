"""The SHA-256 of a file, which may be of gigabytes: read piece by piece."""

import hashlib
from pathlib import Path


def sha256_of(file: Path) -> str:
    """Lower-case hexadecimal. Raises OSError."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
