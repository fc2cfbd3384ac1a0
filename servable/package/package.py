"""Packs the models of an environment ahead of publishing, and reports what the archives hold."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from infra.catalog import images
from infra.catalog.images import ImageModules, image_modules, op_table
from infra.packing import archive_inputs, variants_running
from infra.parameters.batch.job import batch_jobs
from infra.parameters.environment import Environment
from infra.parameters.finding import Severity
from infra.parameters.loading import ValidFile
from infra.parameters.variant import Variant, machine_of
from infra.policy.hosting import newest_version
from infra.policy.sizing import machine
from infra.preflight.check import RULES
from infra.preflight.graph_faults import graph_faults
from model_packaging import dependencies
from model_packaging.archive import Packed, pack_tree
from model_packaging.beside import ARCHIVES, MADE, WHEELS
from model_packaging.dependencies import Wheel, locked
from model_packaging.inputs import key_tree_and_hashes
from model_packaging.refusal import PackagingError
from model_packaging.saved_model import SavedModelInfo, read
from model_packaging.tree import Progress, Tree, sha256_of
from model_packaging.verification import Verified


@dataclass(frozen=True, kw_only=True)
class Package:
    """One packed archive, or one prefix of files, with its content."""

    model: str
    key: str
    tree: Tree
    versions: tuple[tuple[str, int, SavedModelInfo], ...]
    """(model, version number, content of its SavedModel)."""
    wheels: tuple[str, ...]
    packed: Packed | None
    """None if an earlier run packed the same inputs, or if nothing is packed."""
    path: Path | None
    """None with compression = "none": each file is uploaded as it is."""

    @functools.cached_property
    def sha256(self) -> str | None:
        """SHA-256 of the archive; None if nothing is packed."""
        if self.packed is not None or self.path is None:
            return self.packed.sha256 if self.packed else None
        return sha256_of(self.path)


def package(
    loaded: ValidFile,
    *,
    find_links: Path | None = None,
    hashing: Progress | None = None,
    packing: Progress | None = None,
) -> Iterator[Package]:
    """Lock and fetch the code's dependencies, then pack; yields each archive as it is done.

    `find_links`: a folder of wheels to use instead of an index. Raises `PackagingError`.
    """
    environment = loaded.environment
    for name, at_root in _archives(environment):
        model = environment.models[name]
        wheels: list[Wheel] = []
        if model.code is not None and model.install == "vendored":
            wheels = _wheels(loaded, name, model.code.path, find_links)
        inputs = archive_inputs(environment, name, loaded.root, at_root=at_root)
        known = [
            (servable.name, number, read(folder))
            for servable in inputs.servables
            for number, folder in servable.versions().items()
        ]
        key, tree, _ = key_tree_and_hashes(inputs, cache=loaded.root / MADE, progress=hashing)
        target = packed = None
        if model.compression == "gzip":
            target = loaded.root / ARCHIVES / f"{key}.tar.gz"
            packed = None if target.exists() else pack_tree(tree, target, progress=packing)
        yield Package(
            model=name,
            key=key,
            tree=tree,
            versions=tuple(known),
            wheels=tuple(wheel.name for wheel in wheels),
            packed=packed,
            path=target,
        )


def _archives(environment: Environment) -> list[tuple[str, bool]]:
    """Return (model, whether its versions are at the root) for each archive of a variant or a batch."""
    archives = []
    names = [each.model for each in environment.served.values()]
    for name in (*names, *(each.model for each in environment.batch.values())):
        model = environment.models[name]
        if model.saved_model is not None:
            archives.append((name, False))
        archives += [(member, True) for member in model.multi_model or []]
    return list(dict.fromkeys(archives))


def _wheels(loaded: ValidFile, name: str, code: Path, find_links: Path | None) -> list[Wheel]:
    """Return the wheels of the lock, resolved anew if the lock does not match."""
    if not dependencies.asks(code):
        return []
    environment = loaded.environment
    versions = [_tensorflow(environment, each) for each in variants_running(environment, name)]
    versions += [
        job.placement.tensorflow for job in batch_jobs(environment) if job.batch.model == name
    ]
    python = images.python(versions[0])
    if python is None:
        problem = "the Python of the model's image is not documented"
        raise PackagingError(code, problem, 'name another tensorflow, or set install = "at start"')
    wheels = loaded.root / WHEELS
    try:
        locked(code, python=python)
    except PackagingError:
        return dependencies.lock(code, python=python, wheels=wheels, find_links=find_links)
    return dependencies.fetch(code, python=python, wheels=wheels, find_links=find_links)


def _containers(loaded: ValidFile) -> list[Variant]:
    """Return the variants and components, then the batches as variants."""
    batches = (batch.variant for batch in loaded.environment.batch.values())
    return [*loaded.environment.served.values(), *batches]


def tensorflow_for(loaded: ValidFile | None) -> str:
    """Return the TensorFlow version of the first variant's image, as 2.20; default: the newest."""
    version = images.versions()[-1]
    if loaded is not None:
        version = _tensorflow(loaded.environment, _containers(loaded)[0])
    return ".".join(version.split(".")[:2])


def image_for(loaded: ValidFile | None) -> ImageModules:
    """Return the Python modules in the image of the first variant, or in the newest image.

    Raises `PackagingError` if the image's modules are not documented.
    """
    version = tensorflow_for(loaded)
    modules = image_modules(version)
    if modules is None:
        problem = f"the modules in the image of TensorFlow {version} are not documented"
        raise PackagingError(
            Path(loaded.file if loaded else "."), problem, "name another tensorflow"
        )
    return modules


def with_graph_faults(verified: Verified, loaded: ValidFile | None) -> Verified:
    """Return the verification with the faults of its graphs under the image's TensorFlow.

    CPU kernels are required if the environment names an instance type without a GPU.
    """
    version = tensorflow_for(loaded)
    table = op_table(version)
    cpu = False
    if loaded is not None:
        every = _containers(loaded)
        machines = [machine_of(placed) for variant in every for placed in variant.on_each_type]
        cpu = any(each is not None and not each.gpus for each in machines)
    severities = {rule.id: rule.severity for rule in RULES}
    sentences: dict[Severity, list[str]] = {Severity.ERROR: [], Severity.WARNING: []}
    for shown, graph in verified.graphs:
        for fault in () if table is None else graph_faults(graph, table, cpu=cpu):
            sentence = f"{shown}: {fault.problem}; {fault.allowed}; {fault.remedy}"
            sentences[severities[fault.rule]].append(sentence)
    if not images.has("rewritten_code", version):
        sentences[Severity.ERROR] += [
            f"{model or '.'}/0: the image of TensorFlow {version} does not start with version 0; "
            "rename the folder to 1"
            for model, number, _ in verified.versions
            if number == 0
        ]
    if table is None:
        unknown = f"operations of the graph, which are not known for TensorFlow {version}"
        verified = replace(verified, not_looked_at=(unknown, *verified.not_looked_at))
    return replace(
        verified,
        problems=(*verified.problems, *sentences[Severity.ERROR]),
        warnings=(*verified.warnings, *sentences[Severity.WARNING]),
    )


def _tensorflow(environment: Environment, variant: Variant) -> str:
    """The version of the variant's image: the model's, or the newest for its instance type."""
    return environment.models[variant.model].tensorflow or newest_version(
        machine(variant.on_each_type[0].instance_type, variant.serverless_memory_mib)
    )
