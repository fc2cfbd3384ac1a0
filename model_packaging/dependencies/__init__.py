"""Packages that the image lacks: named in requirements.txt, locked, and vendored."""

from model_packaging.dependencies.requirements_file import (
    WANTED,
    has_requirements,
    list_source_options,
)
from model_packaging.dependencies.wheels import (
    LOCK,
    Wheel,
    build_lib_folder,
    fetch,
    list_vendored_versions,
    lock,
    read_lock,
    require_wheels,
)

__all__ = [
    "LOCK",
    "WANTED",
    "Wheel",
    "build_lib_folder",
    "fetch",
    "has_requirements",
    "list_source_options",
    "list_vendored_versions",
    "lock",
    "read_lock",
    "require_wheels",
]
