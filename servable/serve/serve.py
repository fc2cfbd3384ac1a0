"""Variants of an environment, prepared to be served on this computer: archives and variables."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from infra.parameters.batch.job import BatchJob
from infra.parameters.finding import meant
from infra.parameters.loading import ValidFile
from infra.parameters.model import Artifact
from infra.parameters.placement import placement
from infra.policy.container import MULTI_MODEL_SWITCH
from infra.policy.hosting import Hosting
from model_packaging import dependencies
from model_packaging.archive import pack_tree
from model_packaging.places import ARCHIVES, UNPACKED, WHEELS
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.reading import WARM_UP
from servable.package.package import package
from servable.project.account import Account
from servable.project.provided import fetched_packages
from servable.serve.artifact import cached, downloaded

# servable_local/container/model_server/process.py writes it.
FAILED_RECORD = re.compile(
    rf"model (?P<model>\S+) version [0-9]+: {WARM_UP}: record (?P<number>[0-9]+): (?P<problem>.*)",
    re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class PreparedVariant:
    """One variant. `archive`: None in multi-model mode, where `members` has one for each model."""

    variant: str
    archive: Path | None
    members: dict[str, Path]
    variables: dict[str, str]
    image: str
    """The container image's address."""
    tensorflow: str
    """TensorFlow version, as 2.20."""
    file: str = ""
    """The environment file."""
    startup_timeout_seconds: float | None = None
    """How long the file lets the container start; None: the file does not state it."""
    warm_up: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Files of the warm-up requests that were packed here, by model."""

    def explained(self, reason: str) -> str:
        """Why a container does not start, with key and file of a failing warm-up request."""
        failed = FAILED_RECORD.search(reason)
        files = self.warm_up.get(failed["model"], ()) if failed else ()
        if failed is None or int(failed["number"]) > len(files):
            return reason
        problem = " ".join(failed["problem"].split())  # TensorFlow's goes over several lines
        return (
            f"{problem}; {self.file}: models.{failed['model']}.warm_up: the model fails on "
            f"{files[int(failed['number']) - 1]}, so that the container does not start; "
            "write a request there that the model answers, or remove it from warm_up"
        )


def prepared(
    loaded: ValidFile,
    *,
    variant: str | None = None,
    archive: Path | None = None,
    download: bool = True,
) -> PreparedVariant:
    """Pack the models of a variant, unless `archive` is given. Raises `PackagingError`.

    `variant` None: the environment's first. An archive in S3 is downloaded once for this computer;
    without `download` it is used only if it is there.
    """
    environment = loaded.environment
    name = variant or next(iter(environment.served))
    if name not in environment.served:
        known = environment.served
        problem = f"there is no variant {name!r}; allowed: {', '.join(known)}"
        raise PackagingError(Path(loaded.file), problem, meant(name, known))
    chosen = environment.served[name]
    placed = placement(environment, name)
    assert placed is not None  # preflight: its instance type and model are known
    decided = placed.hosting(environment.region)
    served = _prepared(loaded, name, chosen.model, decided, archive, download=download)
    return replace(served, startup_timeout_seconds=placed.variant.startup_timeout_seconds)


def prepared_batch(loaded: ValidFile, job: BatchJob, *, download: bool = True) -> PreparedVariant:
    """Pack the model of a batch, with the job's container variables, as `prepared` does."""
    decided = job.hosting(loaded.environment.region)
    return _prepared(loaded, job.name, job.batch.model, decided, None, download=download)


def _prepared(
    loaded: ValidFile,
    name: str,
    served: str,
    decided: Hosting,
    archive: Path | None,
    *,
    download: bool,
) -> PreparedVariant:
    """`name`: of the variant or batch, `served`: of its model."""
    environment = loaded.environment
    model = environment.models[served]
    if model.artifact is not None and archive is None:
        archive = _from_s3(loaded, served, model.artifact, download=download)
    packed = {} if archive else _packed(loaded, {served, *(model.multi_model or [])})
    variables = dict(decided.variables)
    if model.multi_model:
        variables[MULTI_MODEL_SWITCH] = "true"
    return PreparedVariant(
        variant=name,
        archive=archive or (None if model.multi_model else packed[served]),
        members=packed if model.multi_model else {},
        variables=variables,
        image=decided.image.uri,
        tensorflow=decided.tensorflow,
        file=loaded.file,
        warm_up={name: environment.models[name].warm_up for name in packed},
    )


def _from_s3(loaded: ValidFile, model: str, artifact: Artifact, *, download: bool) -> Path:
    environment = loaded.environment
    if download:
        account = Account(region=environment.region, number=environment.account)
        return downloaded(artifact, account)
    if not (there := cached(artifact)).exists():
        problem = f"models.{model} is an archive in S3, {artifact.uri}, that was not downloaded yet"
        fix = f"`servable serve {loaded.name}` downloads it once for this computer"
        raise PackagingError(Path(loaded.file), problem, fix)
    return there


def _fetch_packages(loaded: ValidFile, name: str) -> None:
    """Fetch compiled packages for this Python from the index that requirements.txt names."""
    model = loaded.environment.models[name]
    if model.code is None or model.install != "vendored":
        return
    root, code = loaded.root, model.code.path
    lib = dependencies.vendored(code, wheels=root / WHEELS, unpacked=root / UNPACKED)
    if lib is not None and (index := dependencies.sources(code)):
        # The container reports at its start what could not be fetched.
        list(fetched_packages(lib, index=index))


def _packed(loaded: ValidFile, wanted: set[str]) -> dict[str, Path]:
    paths = {}
    for packed in package(loaded):
        if packed.model not in wanted:
            continue
        _fetch_packages(loaded, packed.model)
        path = packed.path
        if path is None:
            # A deploy uploads the files unpacked; here they are packed like the others.
            path = loaded.root / ARCHIVES / f"{packed.key}.tar.gz"
            if not path.exists():
                pack_tree(packed.tree, path)
        paths[packed.model] = path
    return paths
