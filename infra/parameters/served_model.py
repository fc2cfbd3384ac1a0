"""What the file and the disk say of a model's size, for the policies that divide a machine."""

from collections.abc import Mapping
from dataclasses import replace
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
    measured_worker = model.worker_memory_mib
    found = Served(
        model_gib=None,
        measured_server_gib=model.server_memory_gib,
        measured_worker_gib=None if measured_worker is None else measured_worker / MIB_PER_GIB,
    )
    if model.artifact is not None:
        packed = model.artifact.size_bytes
        return replace(
            found,
            model_gib=model.artifact.size_gib,
            packed_gib=None if packed is None else packed / BYTES_PER_GIB,
            has_code=None,
        )
    several = model.multi_model is not None
    return replace(
        found,
        model_gib=None if several else _together_gib(models, name, root),
        compressed=model.compression == "gzip",
        # In multi-model mode Gunicorn always runs: it loads and unloads the models.
        has_code=several or model.code is not None or model.handler is not None,
        multi_model=several,
    )


def _together_gib(models: Mapping[str, Model], name: str, root: Path) -> float | None:
    """Of all models in one archive; None when the size of one is unknown."""
    total = 0.0
    for one in [name, *models[name].also_serves]:
        model = models.get(one)
        size = folder_gib(root / model.saved_model) if model and model.saved_model else None
        if size is None:
            return None
        total += size
    return total


def folder_gib(folder: Path) -> float | None:
    """All files of all versions: the container loads every one."""
    try:
        files = (one for one in folder.rglob("*") if one.is_file())
        total = sum(one.stat().st_size for one in files)
    except OSError:
        return None  # another rule says what is wrong with the folder
    return total / BYTES_PER_GIB if total else None
