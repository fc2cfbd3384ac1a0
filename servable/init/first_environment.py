"""Create a first environment for a SavedModel: read, size, check, and write it with reasons."""

import json
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import tomlkit

from infra.catalog import images
from infra.catalog.instances import Instance, find_regions, load_instances
from infra.catalog.prices import find_price
from infra.parameters.finding import Finding
from infra.parameters.loading import NAME, Loaded, load
from infra.parameters.sources import is_base
from infra.policy.container import ContainerSettings
from infra.policy.derived_settings import derive_settings
from infra.policy.hosting import find_newest_version
from infra.policy.sizing import BYTES_PER_GIB, MIB_PER_GIB, ModelSizes, compute_memory
from infra.preflight.check import check
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.reading import DEFAULT_SIGNATURE, read
from servable.console.terminal import escape_name
from servable.init.model_folder import (
    REQUIREMENTS,
    build_golden_request,
    derive_model_name,
    find_code,
    find_saved_model,
    find_version,
    read_input_example,
)
from servable.new.project_files import find_missing_files, is_base_extendable
from servable.project.environments import Project
from servable.project.folder import FOLDER, find_project_folder

# Of a request's file -> its content type.
ENDINGS = {".json": "application/json", ".jsonl": "application/jsonlines", ".csv": "text/csv"}
# Room for requests in flight and for the next, somewhat larger, version of the model.
MEMORY_SHARE = 0.7
HANDLER = (
    'handler     = "servable"  # arrays in and out; otherwise the container takes only JSON and CSV'
)


@dataclass(frozen=True, kw_only=True)
class InitOptions:
    """What `servable init` was given."""

    saved_model: Path | None = None
    name: str | None = None
    """Name of the environment; None: that of the model or of what is deployed."""
    source: str | None = None
    """Environment to write a preview of."""
    expires_in_days: int | None = None
    from_endpoint: str | None = None
    from_config: str | None = None
    from_model: str | None = None
    endpoint_name: str | None = None
    request: Path | None = None
    """Body of the golden request."""
    copy: bool = False
    local: bool = False
    account: str | None = None
    region: str | None = None
    folder: str = FOLDER
    as_json: bool = False

    @property
    def live_sources(self) -> dict[str, str]:
        """Return the deployed resources to read: endpoint, config, or model -> its name."""
        kinds = ("endpoint", "config", "model")
        return {kind: name for kind in kinds if (name := getattr(self, f"from_{kind}"))}

    def find_folders(self) -> tuple[Path, Path]:
        """Return the folder of the project, which need not be one yet, and that of its environments."""
        root, project = find_project_folder(), Project(self.folder)
        return (root, root / FOLDER) if self.folder == FOLDER else (project.root, project.files)


class Start:
    """Facts read from a SavedModel, and the files that result from them.

    Paths are relative to the project. A response of the model changes only `body`, `answer`,
    `warms_up`, and `notes`.
    """

    def __init__(
        self, root: Path, folder: Path, given: Path, options: InitOptions, account: str, region: str
    ) -> None:
        """Read the SavedModel, and choose the instance type and settings. Writes nothing.

        `folder`: that of the environment files. `given`: that of the SavedModel, or of MLflow.
        Raises `PackagingError`.
        """
        self.account, self.region, self.model = account, region, derive_model_name(given)
        request = options.request
        saved_model = find_saved_model(given) or given
        version_folder, self.version = find_version(saved_model)
        self.info = read(version_folder)
        file = choose_environment_file(folder, options.name or self.model)
        self.name, self.file = file.stem, find_relative_path(root, file)
        self.project = find_missing_files(root)
        """Files of a project that the folder lacks: path -> text."""
        files = [path for path in saved_model.rglob("*") if path.is_file()]
        self.size_gib = sum(path.stat().st_size for path in files) / BYTES_PER_GIB
        self.instance, why = _choose_cheapest_instance(self.size_gib, region)
        written_by = (
            f"the newest image; the model was written by {self.info.tensorflow_version or '?'}"
        )
        self.reasons = {"instance_type": why, "tensorflow": written_by}
        names = self.info.signatures
        self.signature = DEFAULT_SIGNATURE if DEFAULT_SIGNATURE in names else min(names)
        self.notes = [REQUIREMENTS] if given != saved_model else []
        example = (
            read_input_example(given, self.signature) if request is None else _read_request(request)
        )
        self.invented = example is None
        self.body = example or build_golden_request(
            self.signature, names[self.signature], self.notes
        )
        """The golden request, or a candidate for it; None if there is none."""
        self.answer: str | None = None
        """The model's response to the golden request, on this computer."""
        self.warms_up = False
        """Whether the container started with the golden request as its warm-up request."""
        self.request_file = f"golden/{self.name}/request{request.suffix if request else '.json'}"
        self.answer_file = f"golden/{self.name}/answer.json"
        code = find_code(saved_model)
        self.code = None if code is None else find_relative_path(root, code)
        """Folder of the code next to the versions."""
        self.has_handler = code is not None and (code / "inference.py").is_file()
        self.saved_model = find_relative_path(root, saved_model)
        self.extends = folder == root / FOLDER and is_base_extendable(root, self.project)
        self.notes += _list_notes(names, self.saved_model, self.code)

    @property
    def files(self) -> dict[str, str]:
        """Return the files to write, as path -> text."""
        golden = {self.request_file: self.body, self.answer_file: self.answer}
        given = {path: text for path, text in golden.items() if text is not None}
        return {**self.project, self.file: _render_environment(self), **given}


def _list_notes(signatures: Collection[str], saved_model: str, code: str | None) -> Iterator[str]:
    if DEFAULT_SIGNATURE not in signatures:
        allowed = ", ".join(signatures)
        yield f"the model has no {DEFAULT_SIGNATURE}; each request must name a signature: {allowed}"
    if Path(saved_model).is_absolute():
        yield (
            f"{saved_model} is outside the project, so other people and pipelines don't have it; "
            "`servable init --copy` copies it into models/"
        )
    if code is not None:
        yield f"{code} is packed as the model's code; check that the golden request suits it"


def _read_request(request: Path) -> str:
    """Read the caller's request. Raises `PackagingError` if it can't be sent unchanged."""
    if request.suffix not in ENDINGS:
        problem = f"unsupported file name extension {request.suffix!r}"
        raise PackagingError(request, problem, "pass a .json, .jsonl, or .csv file")
    try:
        return request.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise PackagingError(request, "is not UTF-8", "save it as UTF-8") from None


def choose_environment_file(folder: Path, name: str) -> Path:
    """Return the path of a new environment's file.

    Raises `PackagingError` if the name is invalid or the file exists.
    """
    file = folder / f"{name}.toml"
    if not re.fullmatch(NAME, name) or is_base(name):
        allowed = "a letter followed by letters, digits, and hyphens, at most 40 characters"
        problem = f"{name!r} is not a valid environment name"
        raise PackagingError(file, problem, f"give --name: {allowed}, and not base")
    if file.exists() or file.is_symlink():
        remedy = "choose a different --name, or delete the file"
        raise PackagingError(file, "exists already", remedy)
    return file


def predict_findings(
    root: Path, folder: Path, name: str, files: Mapping[str, str]
) -> list[Finding]:
    """Return what `servable check` will find in an environment once these files are written.

    `files`: path in the project -> text. Nothing is written into the project.
    """
    findings = []
    with stage_environment(root, folder, name, files) as (loaded, places):
        for finding in check(loaded):
            file, problem = finding.file, finding.problem
            for temporary, path in places.items():
                file, problem = (text.replace(temporary, path) for text in (file, problem))
            findings.append(replace(finding, file=file, problem=problem))
    return findings


@contextmanager
def stage_environment(
    root: Path, folder: Path, name: str, files: Mapping[str, str]
) -> Iterator[tuple[Loaded, Mapping[str, str]]]:
    """Yield an environment with these files in a temporary folder, and a map of their paths.

    The map is temporary path -> path in the project. `files`: path in the project -> text.
    """
    with tempfile.TemporaryDirectory(prefix="servable-init-") as temporary_folder:
        inside = Path(temporary_folder, folder.name)
        inside.mkdir()
        for file in folder.glob("*.toml"):
            shutil.copy(file, inside)
        places = {inside.as_posix(): find_relative_path(root, folder)}
        environments = {}
        for path, text in files.items():
            if (root / path).parent == folder:
                environments[Path(path).name] = text
                continue
            file = Path(temporary_folder, "files", path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            places[file.as_posix()] = path
        for file_name, text in environments.items():
            for temporary, path in places.items():
                text = text.replace(json.dumps(path), json.dumps(temporary))
            (inside / file_name).write_text(text, encoding="utf-8")
        yield next(one for one in load(root, inside) if one.name == name), places


def find_relative_path(root: Path, path: Path) -> str:
    """Return a path relative to the project if it lies there, also through a link.

    Otherwise return the absolute path.
    """
    for inside, base in ((path.absolute(), root.absolute()), (path.resolve(), root.resolve())):
        if inside.is_relative_to(base) and ".." not in inside.parts:
            return inside.relative_to(base).as_posix()
    return path.resolve().as_posix()


def _choose_cheapest_instance(size_gib: float, region: str) -> tuple[Instance, str]:
    """Return the Region's cheapest CPU instance type with room for the model, and the reason.

    Raises `PackagingError` if there is none.
    """
    served = ModelSizes(model_gib=size_gib, has_code=True)  # the handler that is written
    fitting = []
    for instance in load_instances().values():
        row = find_price(instance.name, region)
        unsuitable = instance.gpus or instance.burstable or instance.successor
        if unsuitable or row is None or instance.architecture != "x86_64":
            continue
        version = find_newest_version(instance)
        settings = derive_settings(
            ContainerSettings(), instance=instance, served=served, tensorflow=version
        ).settings
        processes, workers = settings.tfs_processes or 1, settings.gunicorn_workers or 1
        used = compute_memory(instance, served, processes=processes, workers=workers)
        fits = used is not None and used.total_gib <= MEMORY_SHARE * instance.memory_gib
        if used is not None and fits and region in find_regions(instance.name):
            why = (
                f"the cheapest CPU instance type ({row.usd_per_hour:g} $/h of {row.as_of}) that holds the "
                f"model with room: {used.total_gib:.1f} of {instance.memory_gib:g} GiB; "
                f"{instance.vcpus} vCPUs. Measure before production: `servable tune`"
            )
            fitting.append((row.usd_per_hour, instance.vcpus, instance.name, why))
    if not fitting:
        problem = f"no CPU instance type in the catalog of {region} has enough memory for {size_gib:.1f} GiB"
        remedy = "serve the model on GPUs, or split it into several models"
        raise PackagingError(Path("init"), problem, remedy)
    *_, name, why = min(fitting)
    return load_instances()[name], why


def format_size(gib: float) -> str:
    """Format a size with a suitable unit, for example 1.25 GiB or 3.1 MiB."""
    if gib >= 1:
        return f"{gib:.2f} GiB"
    mib = gib * MIB_PER_GIB
    return f"{mib:.1f} MiB" if mib >= 1 else f"{mib * MIB_PER_GIB:.0f} KiB"


def _render_environment(start: Start) -> str:
    """Return the text of the environment file, with the reasons as comments."""
    newest = [version for version in images.list_versions() if version.count(".") == 1][-1]
    shown = escape_name(start.saved_model)
    lines = [
        "#:schema ./schema.json",
        f"# Written by `servable init` for {shown}, {format_size(start.size_gib)}.",
        "# schema.json has every key; `servable check --explain` shows the defaults of the rest.",
        *(['extends = "base"'] if start.extends else []),
        f"account = {_quote(start.account)}",
        f"region  = {_quote(start.region)}",
        "",
        "[endpoint]",
        f"name = {_quote(start.name)}",
        "",
        f"[models.{start.model}]",
        f"saved_model = {_quote(start.saved_model)}",
        *([f"version     = {start.version}"] if start.version is not None else []),
        f"tensorflow  = {_quote(newest)}  # {escape_name(start.reasons['tensorflow'])}",
        *([f"code        = {_quote(start.code)}"] if start.code is not None else []),
        *([] if start.has_handler else [HANDLER]),
        *([f"warm_up     = [{_quote(start.request_file)}]"] if start.warms_up else []),
        "",
        *_render_golden_request(start),
        "",
        "[variants.primary]",
        f"model         = {_quote(start.model)}",
        *[f"# {line}" for line in start.reasons["instance_type"].split(". ")],
        f"instance_type = {_quote(start.instance.name)}",
        "min_instances = 1   # the cheapest start; production needs 2, and scaling",
        "",
        "# [alarms]",
        "# p99_latency_ms = 100   # only you know the objective",
        '# notify = ["oncall@example.com"]',
    ]
    return "\n".join(lines) + "\n"


def _render_golden_request(start: Start) -> list[str]:
    """Return the lines of the golden request. They are comments if there is no request."""
    request, mark = start.request_file, "# " if start.body is None else ""
    recording = [
        f"# `servable serve {start.name}`, and then",
        f"# servable invoke {start.name} --url URL --body {request} --output {start.answer_file}",
    ]
    if start.body is None:
        comments = [
            f"# Write a request that the model accepts to {request}, and uncomment the last three",
            "# lines. To record the response, run",
            *recording,
        ]
    elif start.answer is None:
        comments = ["# The model was not invoked here. To record the response, run", *recording]
    else:
        invented = "The request's values are invented: replace them with real ones"
        values = invented if start.invented else "Your request"
        comments = [f"# {values}. The response was recorded from the model on this computer."]
    return [
        *comments,
        f"{mark}[models.{start.model}.golden]",
        f"{mark}request = {_quote(request)}",
        f"{mark}answer  = {_quote(start.answer_file)}",
    ]


def _quote(text: str) -> str:
    """Return a TOML string. JSON strings differ: TOML accepts no DEL and no surrogate pairs."""
    return tomlkit.string(text).as_string()
