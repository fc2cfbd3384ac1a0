"""The inputs of an environment's archives, for preflight, synth and `servable package`."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from infra.parameters.environment import Environment
from infra.parameters.model import ModelTable
from infra.parameters.variant import Variant
from model_packaging import dependencies
from model_packaging.beside import MADE, UNPACKED, WARM_UPS, WHEELS
from model_packaging.inputs import ArchiveInputs, Servable, key
from model_packaging.requests.known_requests import prepared


def packed_together(environment: Environment, name: str) -> list[str]:
    """The models in the archive of `name`, itself first; unknown models are omitted."""
    model = environment.models[name]
    return [name, *(other for other in model.also_serves if other in environment.models)]


def servable(name: str, model: ModelTable, *, at_root: bool = False) -> Servable:
    """A model's files without warm-up records."""
    assert model.saved_model is not None  # preflight: packed models have one
    folder = model.saved_model.path
    return Servable(name=name, folder=folder, version=model.version, at_root=at_root)


def archive_inputs(
    environment: Environment, name: str, root: Path, *, at_root: bool = False
) -> ArchiveInputs:
    """Everything in a model's archive, with warm-up records and vendored packages.

    It comes from files, lock and wheels on this computer, never the network; `root` is the project, whose
    folder for generated files is used. Raises `PackagingError`.
    """
    model = environment.models[name]
    servables = []
    for member in packed_together(environment, name):
        packed = environment.models[member]
        files = servable(member, packed, at_root=at_root)
        if packed.warm_up:
            requests = [file.path for file in packed.warm_up]
            files = prepared(files, requests, folder=root / WARM_UPS)
        servables.append(files)
    code = model.code.path if model.code else None
    lib = None
    if code is not None and model.install == "vendored":
        lib = dependencies.vendored(code, wheels=root / WHEELS, unpacked=root / UNPACKED)
    handler = model.handler == "servable"
    return ArchiveInputs(servables=tuple(servables), code=code, lib=lib, handler=handler)


def together(keys: Mapping[str, str]) -> str:
    """The key of several archives under one prefix. `keys` maps models to the archives' keys."""
    return hashlib.sha256(json.dumps(dict(sorted(keys.items()))).encode()).hexdigest()


def packed_key(environment: Environment, name: str, root: Path) -> str:
    """The name of the archive or prefix that the sources on this computer give.

    Raises `PackagingError`.
    """
    members = environment.models[name].multi_model
    if members is None:
        return key(archive_inputs(environment, name, root), cache=root / MADE)
    inputs = {member: archive_inputs(environment, member, root, at_root=True) for member in members}
    return together({member: key(files, cache=root / MADE) for member, files in inputs.items()})


def variants_running(environment: Environment, name: str) -> list[Variant]:
    """The variants, and batches as variants, whose containers run the model's own code."""
    served = {name} | {
        other for other, model in environment.models.items() if name in (model.multi_model or [])
    }
    batches = (batch.variant for batch in environment.batch.values())
    running = [*environment.served.values(), *batches]
    return [variant for variant in running if variant.model in served]
