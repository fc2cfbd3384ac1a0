"""Checks one file when the CDK CLI publishes it unpacked, and prints its path.

    python -I unpacked_file.py PATH SHA256

One process runs for each file of a model, so this module imports nothing of ours.
"""

import hashlib
import sys
from pathlib import Path


def build_command(path: Path, *, sha256: str) -> list[str]:
    """Return the command that publishes the file. The CDK CLI runs it only when it publishes."""
    return [sys.executable, "-I", str(Path(__file__)), str(path), sha256]


def main(path: str, sha256: str) -> int:
    try:
        with Path(path).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        print(f"{path}: cannot be read: {error.strerror}; let this user read it", file=sys.stderr)
        return 1
    if digest != sha256:
        print(f"{path}: changed between synth and publishing; deploy again", file=sys.stderr)
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
