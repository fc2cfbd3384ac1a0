"""Exits with one sentence if this Python is too old, before a longer error appears."""

import sys

NEEDED = (3, 11)  # tomllib; and the oldest that every pinned package has wheels for

if sys.version_info < NEEDED:
    found = ".".join(map(str, sys.version_info[:3]))
    sys.exit(
        f"Python {found} at {sys.executable} is too old: Servable needs 3.11 or newer. "
        "Install one and run: make PYTHON=/path/to/python3.11"
    )
