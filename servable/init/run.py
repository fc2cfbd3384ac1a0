"""A first environment for a SavedModel: read, sized, and written with the reasons."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from infra.catalog.instances import Instance
from infra.parameters.finding import Finding
from infra.parameters.loading import load
from infra.preflight.check import check
from model_packaging.refusal import PackagingError
from model_packaging.saved_model import SavedModelInfo, read, versions
from model_packaging.saved_model.reading import DEFAULT_SIGNATURE
from servable.init.first_file import first_file
from servable.init.first_machine import first_machine, shown_size
from servable.init.golden_request import golden_request

__all__ = ["Start", "shown_size", "start", "write"]

BYTES_PER_GIB = 2**30


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
    """Reads the SavedModel and decides. Writes nothing. Raises `PackagingError`.

    `folder`: of the environment files. `name`: of the environment; None, the model's.
    """
    held, version = _held(saved_model)
    info = read(held)
    model = _model_name(saved_model)
    chosen = name or model
    file = folder / f"{chosen}.toml"
    if file.exists():
        raise PackagingError(file, "is there already", "give another --name, or delete it")
    size_gib = _size_gib(saved_model)
    machine, why = first_machine(size_gib, region)
    signature = _signature(info)
    notes: list[str] = []
    body = golden_request(signature, info.signatures[signature], notes)
    if signature != DEFAULT_SIGNATURE:
        said = (
            f"requests must name a signature, as the golden one does: {', '.join(info.signatures)}"
        )
        notes.append(f"the model has no {DEFAULT_SIGNATURE}; {said}")
    shown = _relative(root, saved_model)
    if Path(shown).is_absolute():
        notes.append(f"{shown} is outside of the project: nobody else has it, nor has a pipeline")
    request = f"golden/{chosen}/request.json"
    reasons = {
        "instance_type": why,
        "tensorflow": f"the newest image; the model was written by {info.tensorflow_version or '?'}",
    }
    text = first_file(
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
    if saved_model.is_file():
        remedy = (
            "give the folder that holds it"
            if saved_model.name == "saved_model.pb"
            else f"export it: `keras.saving.load_model({saved_model.name!r}).export('exported')`"
        )
        raise PackagingError(saved_model, "is a file; a SavedModel is a folder", remedy)
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


def _signature(info: SavedModelInfo) -> str:
    """The one that a request without a name gets, else the first."""
    return DEFAULT_SIGNATURE if DEFAULT_SIGNATURE in info.signatures else min(info.signatures)


def _relative(root: Path, path: Path) -> str:
    resolved = path.resolve()
    return (
        resolved.relative_to(root.resolve()).as_posix()
        if resolved.is_relative_to(root.resolve())
        else resolved.as_posix()
    )
