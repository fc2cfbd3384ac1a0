"""Would the container serve this archive? Everything that can be known without running it."""

import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from model_packaging.existing_archive import Member, unpack_what_counts
from model_packaging.python_code import check_code
from model_packaging.refusal import PackagingError
from model_packaging.requests.warm_up import check_warm_up
from model_packaging.saved_model import SavedModelInfo, read
from model_packaging.saved_model.operations import GraphOperations, operations
from model_packaging.saved_model.reading import WARM_UP, suggest_version

_SWITCHES = ("code/lib", "code/requirements.txt")

LOOKED_AT = (
    "entries, signatures, variables, assets, warm-up records, the graph's operations, and the code's "
    "syntax and imports"
)
NOT_LOOKED_AT = (
    "memory, batching and requests, which `servable check` looks at; whether the model computes and "
    "what the code does, which `servable serve --archive` shows"
)


@dataclass(frozen=True, kw_only=True)
class Verified:
    """Content of an archive, and its faults."""

    sha256: str
    members: tuple[Member, ...]
    versions: tuple[tuple[str, int, SavedModelInfo], ...]
    """Model, version, what that version is; "" for the model whose versions are at the root."""
    graphs: tuple[tuple[str, GraphOperations], ...]
    """The path of each saved_model.pb, and what it is made of."""
    problems: tuple[str, ...]
    """Each a whole sentence: the entry, what is wrong, what to do."""
    warnings: tuple[str, ...]


def verify(archive: Path, *, python: str, provided: Collection[str]) -> Verified:
    """All problems at once. Raises `PackagingError` where the archive cannot be read to its end.

    `python` and `provided` are the image's, as for `check_code`.
    """
    with tempfile.TemporaryDirectory(prefix="servable-verify-") as name:
        folder = Path(name)
        members, sha256 = unpack_what_counts(archive, folder)
        problems = [
            f"{member.shown}: is a {member.kind}; pack files and folders only, inside the archive"
            for member in members
            if member.kind not in ("file", "folder")
        ]
        warnings: list[str] = []
        versions: list[tuple[str, int, SavedModelInfo]] = []
        graphs: list[tuple[str, GraphOperations]] = []
        folders = list(_versions(folder, problems))
        for model, number, version in folders:
            try:
                info = read(version)
                versions.append((model, number, info))
                shown = (version / "saved_model.pb").relative_to(folder).as_posix()
                graphs.append((shown, operations(version)))
                if info.has_warm_up:
                    check_warm_up(version / WARM_UP, info)
            except PackagingError as refusal:
                path = refusal.path
                path = path.relative_to(folder) if path.is_relative_to(folder) else path
                problems.append(f"{path}: {refusal.problem}; {refusal.remedy}")
        if not folders:
            problems.append(
                f"{archive}: holds no <version>/saved_model.pb with a version of digits only; "
                "pack 1/saved_model.pb or MODEL/1/saved_model.pb"
            )
        _check_code(folder, python, provided, problems, warnings)
    return Verified(
        sha256=sha256,
        members=tuple(members),
        versions=tuple(versions),
        graphs=tuple(graphs),
        problems=tuple(problems),
        warnings=tuple(warnings),
    )


def _versions(folder: Path, problems: list[str]) -> Iterator[tuple[str, int, Path]]:
    """(model, version, folder) as the container finds them: by name, then by number."""
    by_version: dict[tuple[str, int], Path] = {}
    for graph in sorted(folder.rglob("saved_model.pb")):
        version = graph.parent
        shown = graph.relative_to(folder)
        if version == folder or not (version.name.isascii() and version.name.isdigit()):
            remedy = f"move it to 1/{graph.name}"
            if version != folder:
                renamed = shown.parent.with_name(suggest_version(version.name))
                remedy = f"rename {shown.parent} to {renamed}"
            problems.append(f"{shown}: is in no folder named with digits only; {remedy}")
            continue
        model = "" if version.parent == folder else version.parent.name
        number = int(version.name)
        if (model, number) in by_version:
            problems.append(f"{shown}: is version {number} of {model!r} again; take one out")
            continue
        by_version[model, number] = version
    for (model, number), version in sorted(by_version.items()):
        yield model, number, version


def _check_code(
    folder: Path,
    python: str,
    provided: Collection[str],
    problems: list[str],
    warnings: list[str],
) -> None:
    code = folder / "code"
    switches = [name for name in _SWITCHES if (folder / name).exists()]
    if (code / "inference.py").is_file():
        for finding in check_code(code, python=python, provided=provided):
            text = f"{finding.file.relative_to(folder)}:{finding.line}: {finding.problem}; {finding.remedy}"
            (problems if finding.severity == "error" else warnings).append(text)
    elif switches:
        problems.append(
            f"{switches[0]}: is there without code/inference.py, so that the container no longer "
            "converts CSV and bare lists itself and answers them 400; add inference.py, or take it out"
        )
    if switches == ["code/requirements.txt"]:
        warnings.append(
            "code/requirements.txt: is installed by pip whenever a container starts; "
            "vendor the packages as code/lib/"
        )
