"""Packages of a model that the image lacks: asked for in requirements.txt, locked, vendored."""

from model_packaging.dependencies.requirements_file import WANTED, asks, sources
from model_packaging.dependencies.wheels import (
    LOCK,
    Wheel,
    fetch,
    lock,
    locked,
    require,
    vendored,
    vendored_versions,
)

__all__ = [
    "LOCK",
    "WANTED",
    "Wheel",
    "asks",
    "fetch",
    "lock",
    "locked",
    "require",
    "sources",
    "vendored",
    "vendored_versions",
]
