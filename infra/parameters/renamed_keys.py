"""Keys of environment files that have another name now: refused, with the new name.

A key that is renamed gets its row with the rename, for ever: somebody upgrades over many versions.
"""

from collections.abc import Mapping

RENAMED: Mapping[str, str] = {}
"""Dotted key as it was -> as it is. NAME stands for a name that the file chooses, as in
models.NAME.golden. No key has been renamed until now (0.1.0)."""


def renamed(key: tuple[str, ...]) -> str | None:
    """What the key is called now, with the file's own names; None where it was never another."""
    for was, now in RENAMED.items():
        parts = was.split(".")
        if len(parts) == len(key) and all(
            a in ("NAME", b) for a, b in zip(parts, key, strict=True)
        ):
            names = iter(b for a, b in zip(parts, key, strict=True) if a == "NAME")
            return ".".join(next(names) if one == "NAME" else one for one in now.split("."))
    return None
