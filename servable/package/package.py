"""Pack the models of an environment before publishing, and report the archives' content."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from infra.catalog import images
from infra.catalog.images import ImageModules, find_modules, find_op_table
from infra.packing import build_archive_inputs, find_running_variants
from infra.parameters.batch.job import list_batch_jobs
from infra.parameters.environment import Environment
from infra.parameters.finding import Severity
from infra.parameters.loading import ValidFile
from infra.parameters.variant import Variant, find_variant_machine
from infra.policy.hosting import find_newest_version
from infra.policy.sizing import find_machine
from infra.preflight.check import RULES
from infra.preflight.graph_faults import find_graph_faults
from model_packaging.archive import Packed, pack_tree
from model_packaging.beside import ARCHIVES, MADE, WHEELS
from model_packaging.dependencies.requirements_file import has_requirements
from model_packaging.dependencies.wheels import Wheel, fetch, lock, read_lock
from model_packaging.inputs import compute_key_tree_and_hashes
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.reading import SavedModelInfo, read
from model_packaging.tree import Progress, Tree, compute_sha256
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
        """Return the SHA-256 of the archive, or None if nothing is packed."""
        if self.packed is not None:
            return self.packed.sha256
        return None if self.path is None else compute_sha256(self.path)


def pack_models(
    loaded: ValidFile,
    *,
    find_links: Path | None = None,
    hashing: Progress | None = None,
    packing: Progress | None = None,
) -> Iterator[Package]:
    """Lock and fetch the code's dependencies, then pack and yield one archive after the other.

    `find_links`: a folder of wheels to use instead of an index. Raises `PackagingError`.
    """
    environment = loaded.environment
    for name, at_root in _list_archives(environment):
        model = environment.models[name]
        wheels: list[Wheel] = []
        if model.code is not None and model.install == "vendored":
            wheels = _fetch_wheels(loaded, name, model.code.path, find_links)
        inputs = build_archive_inputs(environment, name, loaded.root, at_root=at_root)
        known = [
            (servable.name, number, read(folder))
            for servable in inputs.servables
            for number, folder in servable.find_versions().items()
        ]
        cache = loaded.root / MADE
        key, tree, _ = compute_key_tree_and_hashes(inputs, cache=cache, progress=hashing)
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


def _list_archives(environment: Environment) -> list[tuple[str, bool]]:
    """Return (model, whether its versions are at the root) for each archive of a variant or a batch."""
    archives = []
    names = [each.model for each in environment.serving_variants.values()]
    for name in (*names, *(each.model for each in environment.batch.values())):
        model = environment.models[name]
        if model.saved_model is not None:
            archives.append((name, False))
        archives += [(member, True) for member in model.multi_model or []]
    return list(dict.fromkeys(archives))


def _fetch_wheels(loaded: ValidFile, name: str, code: Path, find_links: Path | None) -> list[Wheel]:
    """Return the lock file's wheels; resolve a stale one again. Raises `PackagingError`."""
    if not has_requirements(code):
        return []
    environment = loaded.environment
    running = find_running_variants(environment, name)
    versions = [_select_tensorflow_version(environment, each) for each in running]
    jobs = [job for job in list_batch_jobs(environment) if job.batch.model == name]
    versions += [job.placement.tensorflow for job in jobs]
    python = images.find_python(versions[0])
    if python is None:
        problem = "the Python version of the model's image isn't documented"
        remedy = 'set a different tensorflow, or set install = "at start"'
        raise PackagingError(code, problem, remedy)
    wheels = loaded.root / WHEELS
    try:
        read_lock(code, python=python)
    except PackagingError:
        return lock(code, python=python, wheels=wheels, find_links=find_links)
    return fetch(code, python=python, wheels=wheels, find_links=find_links)


def _list_containers(loaded: ValidFile) -> list[Variant]:
    """Return the variants and components, followed by the batches as variants."""
    batches = (batch.variant for batch in loaded.environment.batch.values())
    return [*loaded.environment.serving_variants.values(), *batches]


def find_tensorflow_version(loaded: ValidFile | None) -> str:
    """Return the version of the first variant's image, such as 2.20, or else the newest."""
    version = images.list_versions()[-1]
    if loaded is not None:
        version = _select_tensorflow_version(loaded.environment, _list_containers(loaded)[0])
    return ".".join(version.split(".")[:2])


def find_image_modules(loaded: ValidFile | None) -> ImageModules:
    """Return the modules in the first variant's or newest image. Raises `PackagingError`."""
    version = find_tensorflow_version(loaded)
    modules = find_modules(version)
    if modules is None:
        file = Path(loaded.file if loaded else ".")
        problem = f"the modules in the image of TensorFlow {version} are not documented"
        raise PackagingError(file, problem, "set a different tensorflow")
    return modules


def add_graph_faults(verified: Verified, loaded: ValidFile | None) -> Verified:
    """Add the faults of the graphs in the image; an instance without a GPU needs CPU kernels."""
    version = find_tensorflow_version(loaded)
    table = find_op_table(version)
    every = [] if loaded is None else _list_containers(loaded)
    placed = [each for variant in every for each in variant.variants_per_type]
    cpu = any(each is not None and not each.gpus for each in map(find_variant_machine, placed))
    severities = {rule.id: rule.severity for rule in RULES}
    sentences: dict[Severity, list[str]] = {Severity.ERROR: [], Severity.WARNING: []}
    for shown, graph in verified.graphs:
        for fault in () if table is None else find_graph_faults(graph, table, cpu=cpu):
            sentence = f"{shown}: {fault.problem}; {fault.allowed}; {fault.remedy}"
            sentences[severities[fault.rule]].append(sentence)
    if not images.has_feature("rewritten_code", version):
        sentences[Severity.ERROR] += [
            f"{model or '.'}/0: the image of TensorFlow {version} doesn't start if a model has version 0; "
            "rename the folder to 1"
            for model, number, _ in verified.versions
            if number == 0
        ]
    if table is None:
        unknown = f"the graph's operations, because those of TensorFlow {version}"
        verified = replace(verified, not_looked_at=(unknown, *verified.not_looked_at))
    return replace(
        verified,
        problems=(*verified.problems, *sentences[Severity.ERROR]),
        warnings=(*verified.warnings, *sentences[Severity.WARNING]),
    )


def _select_tensorflow_version(environment: Environment, variant: Variant) -> str:
    """Return the model's version, or the newest one for the variant's instance type."""
    return environment.models[variant.model].tensorflow or find_newest_version(
        find_machine(variant.variants_per_type[0].instance_type, variant.serverless_memory_mib)
    )
