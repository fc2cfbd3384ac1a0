"""What the file and the disk say of a model's size, for the policies that divide a machine."""

from collections.abc import Mapping
from pathlib import Path

from infra.parameters.model import Model
from infra.policy.served import Served

BYTES_PER_GIB = 2**30
MIB_PER_GIB = 1024


def served(models: Mapping[str, Model], name: str, root: Path) -> Served:
    """The model of that name with what is packed beside it; of multi_model no size, since a
    container holds those that were asked for. Never raises for a bad folder.

    `root`: the project that the models' paths are relative to.
    """
    model = models[name]
    artifact = model.artifact
    if artifact is not None:
        packed = None if artifact.size_bytes is None else artifact.size_bytes / BYTES_PER_GIB
        unpacked, has_code = artifact.size_gib, None
    else:
        members = [models[one] for one in model.multi_model or [] if one in models]
        packed = None
        has_code = any(one.code or one.handler for one in [model, *members])
        unpacked = _together_gib(models, name, root)
    return Served(
        model_gib=unpacked,
        packed_gib=packed,
        has_code=has_code,
        measured_server_gib=model.server_memory_gib,
        measured_worker_gib=None
        if model.worker_memory_mib is None
        else model.worker_memory_mib / MIB_PER_GIB,
    )


def _together_gib(models: Mapping[str, Model], name: str, root: Path) -> float | None:
    names = [name, *(one for one in models[name].also_serves if one in models)]
    folders = [models[one].saved_model for one in names]
    sizes = [_folder_gib(root / one) if one else None for one in folders]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _folder_gib(folder: Path) -> float | None:
    """All files of all versions: the container loads every one."""
    try:
        files = (one for one in folder.rglob("*") if one.is_file())
        total = sum(one.stat().st_size for one in files)
    except OSError:
        return None  # another rule says what is wrong with the folder
    return total / BYTES_PER_GIB if total else None
