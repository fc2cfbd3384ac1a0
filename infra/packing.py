"""The inputs of an environment's archives, for preflight, synth and `servable package`."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from infra.parameters.environment import Environment
from infra.parameters.model import ModelTable
from infra.parameters.variant import Variant
from model_packaging.beside import MADE, UNPACKED, WARM_UPS, WHEELS
from model_packaging.dependencies.wheels import build_lib_folder
from model_packaging.inputs import ArchiveInputs, Servable, compute_key
from model_packaging.requests.known_requests import add_warm_up


def list_packed_models(environment: Environment, name: str) -> list[str]:
    """Return the models in the archive of `name`, with `name` first. Omit unknown models."""
    model = environment.models[name]
    return [name, *(other for other in model.also_serves if other in environment.models)]


def build_servable(name: str, model: ModelTable, *, at_root: bool = False) -> Servable:
    """Return a model's files without warm-up records."""
    assert model.saved_model is not None  # preflight: packed models have one
    folder = model.saved_model.path
    return Servable(name=name, folder=folder, version=model.version, at_root=at_root)


def build_archive_inputs(
    environment: Environment, name: str, root: Path, *, at_root: bool = False
) -> ArchiveInputs:
    """Return everything in a model's archive, with warm-up records and vendored packages.

    The content comes from files, the lock, and wheels on this computer, never from the network.
    `root` is the project, whose folder for generated files is used. Raises `PackagingError`.
    """
    model = environment.models[name]
    servables = []
    for member in list_packed_models(environment, name):
        packed = environment.models[member]
        files = build_servable(member, packed, at_root=at_root)
        if packed.warm_up:
            requests = [file.path for file in packed.warm_up]
            files = add_warm_up(files, requests, folder=root / WARM_UPS)
        servables.append(files)
    code = model.code.path if model.code else None
    lib = None
    if code is not None and model.install == "vendored":
        lib = build_lib_folder(code, wheels=root / WHEELS, unpacked=root / UNPACKED)
    handler = model.handler == "servable"
    return ArchiveInputs(servables=tuple(servables), code=code, lib=lib, handler=handler)


def combine_keys(keys: Mapping[str, str]) -> str:
    """Return one key for several archives under one prefix. `keys` maps model to archive key."""
    return hashlib.sha256(json.dumps(dict(sorted(keys.items()))).encode()).hexdigest()


def compute_packed_key(environment: Environment, name: str, root: Path) -> str:
    """Compute the name of the archive or prefix that the sources on this computer give.

    Raises `PackagingError`.
    """
    members = environment.models[name].multi_model
    if members is None:
        return compute_key(build_archive_inputs(environment, name, root), cache=root / MADE)
    inputs = {
        member: build_archive_inputs(environment, member, root, at_root=True) for member in members
    }
    return combine_keys(
        {member: compute_key(files, cache=root / MADE) for member, files in inputs.items()}
    )


def find_running_variants(environment: Environment, name: str) -> list[Variant]:
    """Return the variants, and batches as variants, whose containers run the model's own code."""
    served = {name} | {
        other for other, model in environment.models.items() if name in (model.multi_model or [])
    }
    batches = (batch.variant for batch in environment.batch.values())
    running = [*environment.serving_variants.values(), *batches]
    return [variant for variant in running if variant.model in served]
