"""Verifies, without running it, whether the container would serve an archive."""

import math
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from model_packaging.dependencies import requirements_file
from model_packaging.existing_archive import MOST_ASSET_BYTES, Member, unpack_checked_files
from model_packaging.python_code import check_code
from model_packaging.refusal import PackagingError
from model_packaging.requests.known_requests import check_warm_up
from model_packaging.saved_model.graph_file import GraphOperations
from model_packaging.saved_model.initialization import find_vocabulary_fault
from model_packaging.saved_model.operations import read_operations
from model_packaging.saved_model.reading import (
    DEFAULT_SIGNATURE,
    WARM_UP,
    SavedModelInfo,
    read,
    suggest_version,
)
from model_packaging.saved_model.unfilled import describe_unfilled
from model_packaging.saved_model.variables import (
    MOST_CHECKED_BYTES,
    find_variable_faults,
    read_stored_variables,
)
from model_packaging.secret_files import find_secret_files
from model_packaging.tree import compute_sha256, list_tree

_SWITCHES = ("code/lib", "code/requirements.txt")
# Files that the image, or Servable when it packs, reads in code/ and in no other folder.
_CODE_FILES = frozenset({"inference.py", "transforms.py", "requirements.txt"})

LOOKED_AT = (
    "entries, signatures, variables, assets, warm-up records, the graph's operations and what they read, "
    "and the code's syntax, imports, and secrets"
)
NOT_LOOKED_AT = (
    "memory, batching and requests, which `servable check` covers; whether the model runs and "
    "what the code does, which `servable serve --archive` shows"
)


@dataclass(frozen=True, kw_only=True)
class Verified:
    """The content of an archive, and its faults."""

    sha256: str
    members: tuple[Member, ...]
    versions: tuple[tuple[str, int, SavedModelInfo], ...]
    """(model, version, content); the model whose versions are at the root is ""."""
    graphs: tuple[tuple[str, GraphOperations], ...]
    """The path of each saved_model.pb, and its operations."""
    problems: tuple[str, ...]
    """Each a whole sentence: the entry, the problem, the fix."""
    warnings: tuple[str, ...]
    not_looked_at: tuple[str, ...] = (NOT_LOOKED_AT,)
    """What only an environment or a running container shows, and what was too large."""


@dataclass
class _Findings:
    """The sentences about an archive, collected as they are found."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    not_looked_at: list[str] = field(default_factory=list)


def verify(
    archive: Path, *, python: str, provided: Collection[str], seconds: float = math.inf
) -> Verified:
    """Return all findings at once. Raises `PackagingError` if the archive can't be read to its end.

    `python`, `provided`, and `seconds` are those of `check_code`.
    """
    found = _Findings()
    with tempfile.TemporaryDirectory(prefix="servable-verify-") as name:
        folder = Path(name)
        members = unpack_checked_files(archive, folder)
        found.problems += [
            f"{each.display_name}: is a {each.kind}; pack only files and folders, inside the archive"
            for each in members
            if each.kind not in ("file", "folder")
        ]
        versions: list[tuple[str, int, SavedModelInfo]] = []
        graphs: list[tuple[str, GraphOperations]] = []
        folders = list(_find_versions(folder, found.problems))
        for model, number, version in folders:
            try:
                info = read(version)
                versions.append((model, number, info))
                shown = (version / "saved_model.pb").relative_to(folder).as_posix()
                graphs.append((shown, read_operations(version)))
                _check_model(version.relative_to(folder), info, graphs[-1][1], found)
                if info.has_warm_up:
                    check_warm_up(version / WARM_UP, info)
            except PackagingError as refusal:
                path = refusal.path
                path = path.relative_to(folder) if path.is_relative_to(folder) else path
                found.problems.append(f"{path}: {refusal.problem}; {refusal.remedy}")
        if not folders:
            found.problems.append(
                f"{archive}: has no <version>/saved_model.pb with a numeric version; "
                "pack 1/saved_model.pb or MODEL/1/saved_model.pb"
            )
        found.problems += _find_misplaced_code(folder)
        _check_code(folder, python, provided, seconds, found)
    return Verified(
        sha256=compute_sha256(archive),
        members=tuple(members),
        versions=tuple(versions),
        graphs=tuple(graphs),
        problems=tuple(found.problems),
        warnings=tuple(found.warnings),
        not_looked_at=(*found.not_looked_at, NOT_LOOKED_AT),
    )


def _check_model(
    shown: Path, info: SavedModelInfo, graph: GraphOperations, found: _Findings
) -> None:
    """Add what `servable check` reports of a model's files. Raises `PackagingError`."""
    stored = read_stored_variables(info.folder)
    again = "export the SavedModel again, or pack all files of one export"
    if info.variable_bytes > MOST_CHECKED_BYTES:
        found.not_looked_at.append(f"the checksums of {shown}/variables, which are large")
    wrong = find_variable_faults(graph.restored or (), stored, size=info.variable_bytes)
    found.problems += [f"{shown}/variables: {each}; {again}" for each in islice(wrong, 1)]
    if graph.unfilled is None or graph.restored is None or graph.vocabularies is None:
        missing = f"what {shown}/saved_model.pb restores and reads: it is too large"
        found.not_looked_at.append(missing)
    for problem, remedy in map(describe_unfilled, graph.unfilled or ()):
        found.problems.append(f"{shown}/saved_model.pb: {problem}; {remedy}")
    for table in graph.vocabularies or ():
        file, name = info.folder / "assets" / table.file, f"{shown}/assets/{table.file}"
        if file.stat().st_size > MOST_ASSET_BYTES:
            found.not_looked_at.append(f"the lines of {name}: it is too large")
        elif fault := find_vocabulary_fault(file, table):
            found.problems.append(f"{name}: {fault}; correct it, and export again")
    if DEFAULT_SIGNATURE not in info.signatures:
        found.warnings.append(
            f"{shown}: has no signature {DEFAULT_SIGNATURE}, which requests without a signature name use; "
            f"it has {', '.join(info.signatures)}"
        )


def _find_misplaced_code(folder: Path) -> Iterator[str]:
    """Yield a problem for each folder of code that the image doesn't read.

    Source: serve.py of https://github.com/aws/deep-learning-containers, which only reads
    /opt/ml/model/code/inference.py and /opt/ml/model/code/requirements.txt (2026-11-24)
    """
    seen = set()
    for file in sorted(folder.rglob("*")):
        shown = file.relative_to(folder)
        is_inside = shown.parts[0] == "code" and len(shown.parts) > 1
        if file.name.lower() not in _CODE_FILES or not file.is_file():
            continue
        if is_inside and (len(shown.parts) > 2 or file.name in _CODE_FILES):
            continue  # the code's own modules; a missing code/inference.py is a different problem
        if file.name.lower() == "requirements.txt" and file.parent.name.lower() != "code":
            continue
        if not {"assets", "assets.extra"}.isdisjoint(shown.parts) or shown.parent in seen:
            continue
        seen.add(shown.parent)
        right = f"code/{file.name.lower()}"
        yield f"{shown}: the image reads only {right} at the archive's root; move it to {right}"


def _find_versions(folder: Path, problems: list[str]) -> Iterator[tuple[str, int, Path]]:
    """Yield (model, version, folder) as the container finds them: by name, then by number."""
    by_version: dict[tuple[str, int], Path] = {}
    for graph in sorted(folder.rglob("saved_model.pb")):
        version = graph.parent
        shown = graph.relative_to(folder)
        if version == folder or not (version.name.isascii() and version.name.isdigit()):
            remedy = f"move it to 1/{graph.name}"
            if version != folder:
                renamed = shown.parent.with_name(suggest_version(version.name))
                remedy = f"rename {shown.parent} to {renamed}"
            problems.append(f"{shown}: not in a folder named with digits only; {remedy}")
            continue
        model = "" if version.parent == folder else version.parent.name
        number = int(version.name)
        if (model, number) in by_version:
            problems.append(f"{shown}: is a second version {number} of {model!r}; remove one")
            continue
        by_version[model, number] = version
    for (model, number), version in sorted(by_version.items()):
        yield model, number, version


def _check_code(
    folder: Path, python: str, provided: Collection[str], seconds: float, found: _Findings
) -> None:
    code = folder / "code"
    switches = [name for name in _SWITCHES if (folder / name).exists()]
    if (code / "inference.py").is_file():
        kinds = {"error": found.problems, "warning": found.warnings}
        for fault in check_code(code, python=python, provided=provided, seconds=seconds):
            text = f"{fault.file.relative_to(folder)}:{fault.line}: {fault.problem}; {fault.remedy}"
            kinds.get(fault.severity, found.not_looked_at).append(text)
    elif switches:
        found.problems.append(
            f"{switches[0]}: exists without code/inference.py, so the container no longer "
            "converts CSV and bare lists, and rejects them with 400; add inference.py, or remove it"
        )
    elif code.is_dir() and any(file.is_file() for file in code.rglob("*")):
        found.problems.append(
            "code/: has no inference.py, and the image reads nothing else there; "
            "add inference.py with a handler, or remove the folder"
        )
    if code.is_dir():
        for path, looks_like in find_secret_files(list_tree(code, name="code")):
            found.problems.append(
                f"{path.relative_to(folder)}: looks like {looks_like}, which anyone with access to the "
                "archive can read; remove it, and read it from AWS Secrets Manager"
            )
    if switches == ["code/requirements.txt"]:
        found.problems += [
            f"{file.relative_to(folder)}:{line}: {problem}; {remedy}"
            for file, line, problem, remedy in requirements_file.find_start_faults(code)
        ]
        found.warnings.append(
            "code/requirements.txt: is installed by pip whenever a container starts; "
            "vendor the packages as code/lib/"
        )
