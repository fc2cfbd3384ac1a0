"""Packages of a model that the image lacks: asked for in requirements.txt, locked, vendored."""

from model_packaging.dependencies.lock_file import LOCK, Wheel, locked
from model_packaging.dependencies.requirements_file import WANTED, asks, sources
from model_packaging.dependencies.wheels import (
    fetch,
    lock,
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
