"""Renamed keys of environment files: the old name is rejected with a message that gives the new one.

Rows are never removed, because somebody upgrades over many versions.
"""

from collections.abc import Mapping

RENAMED: Mapping[str, str] = {
    "prices.serverless_usd_per_gb_processed": "prices.usd_per_gb_processed",
    "variants.NAME.variables": "variants.NAME.environment",
    "variants.NAME.components.NAME.variables": "variants.NAME.components.NAME.environment",
    "batch.NAME.variables": "batch.NAME.environment",
}
"""Old dotted key to new dotted key. NAME stands for a name that the file chooses, as in
models.NAME.golden."""
# The old name and the new one of what is read with a warning until the release after the next one.
STILL_READ = ("variables", "environment")


def renamed(key: tuple[str, ...]) -> str | None:
    """The present name of a renamed key, with the file's own names; None if it was never renamed."""
    for was, now in RENAMED.items():
        parts = was.split(".")
        if len(parts) == len(key) and all(
            a in ("NAME", b) for a, b in zip(parts, key, strict=True)
        ):
            names = iter(b for a, b in zip(parts, key, strict=True) if a == "NAME")
            return ".".join(next(names) if part == "NAME" else part for part in now.split("."))
    return None
