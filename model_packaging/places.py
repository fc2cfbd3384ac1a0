"""Folders for files that can be made again: inside the project, ignored by git."""

from pathlib import Path

MADE = Path(".servable")
ARCHIVES = MADE / "archives"
"""Packed archives, by key."""
WHEELS = MADE / "wheels"
"""Wheels that a lock names."""
UNPACKED = MADE / "lib"
"""Unpacked wheels, by the lock's content."""
WARM_UPS = MADE / "warm-up"
"""Warm-up records written from golden requests, by their content."""
