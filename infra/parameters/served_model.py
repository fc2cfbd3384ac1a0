"""What the file and the disk say of a model's size, for the policies that divide a machine."""

from pathlib import Path

from infra.parameters.model import Model
from infra.policy.served import Served

BYTES_PER_GIB = 2**30
MIB_PER_GIB = 1024


def served(model: Model, root: Path) -> Served:
    """`root`: the project that the model's paths are relative to. Never raises for a bad folder."""
    artifact = model.artifact
    if artifact is not None:
        packed = None if artifact.size_bytes is None else artifact.size_bytes / BYTES_PER_GIB
        unpacked, has_code = artifact.size_gib, None
    else:
        packed, has_code = None, model.code is not None
        unpacked = _folder_gib(root / model.saved_model) if model.saved_model else None
    return Served(
        model_gib=unpacked,
        packed_gib=packed,
        has_code=has_code,
        measured_server_gib=model.server_memory_gib,
        measured_worker_gib=None
        if model.worker_memory_mib is None
        else model.worker_memory_mib / MIB_PER_GIB,
    )


def _folder_gib(folder: Path) -> float | None:
    """All files of all versions: the container loads every one."""
    try:
        files = (one for one in folder.rglob("*") if one.is_file())
        total = sum(one.stat().st_size for one in files)
    except OSError:
        return None  # another rule says what is wrong with the folder
    return total / BYTES_PER_GIB if total else None
