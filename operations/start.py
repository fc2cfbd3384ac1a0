"""A first environment for a SavedModel: read, sized, and written with the reasons."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.catalog import images
from infra.catalog.availability import regions_of
from infra.catalog.instances import Instance, instances
from infra.catalog.prices import price
from infra.parameters.finding import Finding
from infra.parameters.loading import load
from infra.policy.container_settings import ContainerSettings
from infra.policy.derived_settings import derive
from infra.policy.served import Served
from infra.policy.sizing import memory
from infra.preflight.check import check
from model_packaging.refusal import Refusal
from model_packaging.saved_model import SavedModelInfo, read, versions
from model_packaging.saved_model.info import DEFAULT_SIGNATURE, Signature, TensorSpec

BYTES_PER_GIB = 2**30
MIB_PER_GIB = 1024
# Room for requests in flight and for the next, somewhat larger, version of the model.
MEMORY_SHARE = 0.7
# InvokeEndpoint takes 6 MiB; a golden request is far smaller, or it is not written.
LARGEST_REQUEST_BYTES = 5_000_000
# In the place of a size that requests may choose.
ROWS, OTHER_SIZE = 1, 8


@dataclass(frozen=True, kw_only=True)
class Start:
    """What was found out, and the files to write, by their path in the project."""

    name: str
    info: SavedModelInfo
    signature: str
    size_gib: float
    instance: Instance
    reasons: dict[str, str]
    files: dict[str, str]
    notes: list[str] = field(default_factory=list)


def start(
    root: Path, folder: Path, saved_model: Path, *, name: str | None, account: str, region: str
) -> Start:
    """Reads the SavedModel and decides. Writes nothing. Raises `Refusal`.

    `folder`: of the environment files. `name`: of the environment; None, the model's.
    """
    held, version = _held(saved_model)
    info = read(held)
    model = _model_name(saved_model)
    chosen = name or model
    file = folder / f"{chosen}.toml"
    if file.exists():
        raise Refusal(file, "is there already", "give another --name, or delete it")
    size_gib = _size_gib(saved_model)
    machine, why = _machine(size_gib, region)
    signature = _signature(info)
    notes: list[str] = []
    body = _body(signature, info.signatures[signature], notes)
    shown = _relative(root, saved_model)
    request = f"golden/{chosen}/request.json"
    reasons = {
        "instance_type": why,
        "tensorflow": f"the newest image; the model was written by {info.tensorflow_version or '?'}",
    }
    text = _text(
        chosen, model, shown, version, machine, size_gib, account, region, reasons, body, request
    )
    files = {_relative(root, file): text}
    if body is not None:
        files[request] = body
    return Start(
        name=chosen,
        info=info,
        signature=signature,
        size_gib=size_gib,
        instance=machine,
        reasons=reasons,
        files=files,
        notes=notes,
    )


def write(root: Path, folder: Path, found: Start) -> list[Finding]:
    """Writes the files, each beside and renamed; what `servable check` then finds."""
    for name, text in found.files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f"{file.name}.part")
        beside.write_text(text, encoding="utf-8")
        beside.replace(file)
    return next(check(one) for one in load(root, folder) if one.name == found.name)


def _held(saved_model: Path) -> tuple[Path, int | None]:
    """(the version's folder, the version to state where it is one SavedModel alone)."""
    if (saved_model / "saved_model.pb").is_file():
        return saved_model, 1
    return versions(saved_model)[-1], None


def _model_name(saved_model: Path) -> str:
    resolved = saved_model.resolve()
    name = resolved.parent.name if resolved.name.isdigit() else resolved.name
    made = re.sub(r"[^a-zA-Z0-9-]+", "-", name).strip("-")[:40].strip("-")
    return made if made[:1].isalpha() else f"model-{made}".rstrip("-")


def _size_gib(saved_model: Path) -> float:
    return (
        sum(one.stat().st_size for one in saved_model.rglob("*") if one.is_file()) / BYTES_PER_GIB
    )


def _machine(size_gib: float, region: str) -> tuple[Instance, str]:
    """The cheapest with a known price, that is in the region, that holds the model with room."""
    served = Served(model_gib=size_gib)
    fitting = []
    for one in instances().values():
        row = price(one.name, region)
        if one.gpus or one.burstable or one.successor or one.architecture != "x86_64":
            continue
        if row is None or region not in regions_of(one.name):
            continue
        processes = derive(ContainerSettings(), instance=one, served=served).settings.tfs_processes
        used = memory(one, served, processes=processes or 1, workers=0)
        if used is not None and used.needed_gib <= MEMORY_SHARE * one.memory_gib:
            fitting.append((row.usd_per_hour, one.vcpus, one.name, used.needed_gib, row.as_of))
    if not fitting:
        problem = f"no CPU instance of the catalog in {region} holds {size_gib:.1f} GiB"
        raise Refusal(Path("init"), problem, "see examples/large_models for GPUs and splitting")
    usd, vcpus, name, needed, as_of = min(fitting)
    why = (
        f"the cheapest CPU machine ({usd:g} $/h of {as_of}) that holds the model of {shown_size(size_gib)} "
        f"with room: {needed:.1f} of {instances()[name].memory_gib:g} GiB; {vcpus} vCPUs. "
        "Measure before production: `servable tune`"
    )
    return instances()[name], why


def _signature(info: SavedModelInfo) -> str:
    """The one that a request without a name gets, else the first."""
    return DEFAULT_SIGNATURE if DEFAULT_SIGNATURE in info.signatures else min(info.signatures)


def _body(name: str, signature: Signature, notes: list[str]) -> str | None:
    """A request of one row that fits the signature, of made-up numbers. None: none can be made."""
    said: dict[str, Any] = {} if name == DEFAULT_SIGNATURE else {"signature_name": name}
    if any(one.dtype in ("resource", "variant") for one in signature.inputs.values()):
        notes.append(f"signature {name} takes what JSON cannot say: no golden request was written")
        return None
    said["inputs"] = {key: _tensor(spec, key, notes) for key, spec in signature.inputs.items()}
    text = json.dumps(said, separators=(",", ":")) + "\n"
    if len(text) > LARGEST_REQUEST_BYTES:
        notes.append(f"one row is {len(text)} bytes as JSON: no golden request; send .npy instead")
        return None
    return text


def _tensor(spec: TensorSpec, key: str, notes: list[str]) -> Any:
    shape = (None,) if spec.shape is None else spec.shape
    sizes = [
        (ROWS if at == 0 else OTHER_SIZE) if size is None else size for at, size in enumerate(shape)
    ]
    if any(size is None for size in shape[1:]):
        notes.append(f"{key}: its shape {list(shape)} is open; the request has {sizes}")
    numbers = _numbers(spec.dtype, math.prod(sizes))
    return _nested(list(numbers), sizes)


def _numbers(dtype: str, count: int) -> Iterator[Any]:
    """Always the same, small, and not all alike."""
    for at in range(count):
        if dtype in ("string", "bytes"):
            yield f"text {at}"
        elif dtype == "bool":
            yield at % 2 == 0
        elif "int" in dtype:
            yield at % 2
        else:
            yield at * 37 % 100 / 100


def _nested(flat: list[Any], sizes: list[int]) -> Any:
    if not sizes:
        return flat[0]
    step = len(flat) // sizes[0] if sizes[0] else 0
    if len(sizes) == 1:
        return flat
    return [_nested(flat[at * step : (at + 1) * step], sizes[1:]) for at in range(sizes[0])]


def _relative(root: Path, path: Path) -> str:
    resolved = path.resolve()
    return (
        resolved.relative_to(root.resolve()).as_posix()
        if resolved.is_relative_to(root.resolve())
        else resolved.as_posix()
    )


def shown_size(gib: float) -> str:
    """As people say it."""
    return f"{gib:.2f} GiB" if gib >= 1 else f"{gib * MIB_PER_GIB:.1f} MiB"


def _text(
    name: str,
    model: str,
    saved_model: str,
    version: int | None,
    machine: Instance,
    size_gib: float,
    account: str,
    region: str,
    reasons: dict[str, str],
    body: str | None,
    request: str,
) -> str:
    newest = next(one for one in reversed(images.versions()) if one.count(".") == 1)
    quoted = json.dumps
    lines = [
        "#:schema ./schema.json",
        f"# Written by `servable init` for {saved_model}, {shown_size(size_gib)}.",
        "# docs/parameters.md has every key; `servable check --explain` shows what is chosen for the rest.",
        f"account = {quoted(account)}",
        f"region  = {quoted(region)}",
        "",
        "[endpoint]",
        f"name = {quoted(name)}",
        "",
        f"[models.{model}]",
        f"saved_model = {quoted(saved_model)}",
        *([f"version     = {version}"] if version is not None else []),
        f"tensorflow  = {quoted(newest)}  # {reasons['tensorflow']}",
        *([f"warm_up     = [{quoted(request)}]"] if body is not None else []),
        "",
    ]
    if body is not None:
        answer = request.replace("request", "answer")
        lines += [
            f"# Made up: put a real one there. The answer: `servable serve {name}`, and then",
            f"# servable invoke {name} --url URL --body {request} --output {answer}",
            f"[models.{model}.golden]",
            f"request = {quoted(request)}",
            f"answer  = {quoted(answer)}",
            "",
        ]
    lines += [
        "[variants.primary]",
        f"model         = {quoted(model)}",
        *[f"# {line}" for line in reasons["instance_type"].split(". ")],
        f"instance_type = {quoted(machine.name)}",
        "min_instances = 1   # the cheapest that answers; production wants 2, and scaling",
        "",
        "# [alarms]",
        "# p99_latency_ms = 100   # only you know the objective",
        '# notify = ["oncall@example.com"]',
    ]
    return "\n".join(lines) + "\n"
