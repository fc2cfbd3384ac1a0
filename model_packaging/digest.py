"""SHA-256 of a file of any size, which is read in pieces."""

import hashlib
from pathlib import Path


def sha256_of(file: Path) -> str:
    """Lower-case hexadecimal. Raises OSError."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
