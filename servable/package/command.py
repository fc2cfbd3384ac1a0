"""`servable package ENV`: pack its models and list the archive; or inspect an existing archive."""

import dataclasses
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded, ValidFile
from infra.preflight.check import check, select_errors
from infra.preflight.model.code import find_response_limit
from model_packaging.existing_archive import list_members
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.reading import SavedModelInfo
from model_packaging.tree import Progress as Callback
from model_packaging.verification import LOOKED_AT, Verified, verify
from servable.console.findings import print_lines
from servable.console.lines import EscapingConsole, build_byte_progress
from servable.package.package import (
    Package,
    add_graph_faults,
    find_image_modules,
    find_tensorflow_version,
    pack_models,
)
from servable.project import environments
from servable.project.completion import OPTIONAL_ENVIRONMENT
from servable.project.environments import Project, pass_project

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@OPTIONAL_ENVIRONMENT
@pass_project
@click.option(
    "--find-links",
    type=click.Path(exists=True, file_okay=False),
    help="Folder of wheels to use instead of a package index.",
)
@click.option("--list", "listed", type=FILE, help="List the content of an archive; pack nothing.")
@click.option(
    "--verify",
    "verified",
    type=FILE,
    help="Check whether the image of ENV (default: the newest) can serve this archive; pack nothing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def package(
    project: Project,
    environment: str | None,
    find_links: str | None,
    listed: Path | None,
    verified: Path | None,
    as_json: bool,
) -> int:
    """Lock and fetch the code's dependencies, pack every model of ENV, and list what the archive holds.

    With --list or --verify, inspect an existing archive.
    """
    if listed and verified:
        problem = "use either --list or --verify, not both; --verify also lists the content"
        raise click.UsageError(problem)
    try:
        if listed:
            return _list_archive(listed, as_json)
        loaded = project.load(environment) if environment else None
        if verified:
            valid = loaded if isinstance(loaded, ValidFile) else None
            return _verify_archive(verified, valid, as_json)
        if loaded is None:
            raise click.UsageError("pass an environment, or an archive with --list or --verify")
        return _pack_environment(loaded, Path(find_links) if find_links else None, as_json)
    except PackagingError as refusal:
        return _print_problems([refusal], as_json)


def _pack_environment(loaded: Loaded, find_links: Path | None, as_json: bool) -> int:
    findings = check(loaded)
    wrong = environments.select_lasting_errors(findings)
    if wrong or not isinstance(loaded, ValidFile):
        return _print_problems(wrong, as_json)
    print_lines(finding for finding in findings if finding.severity is Severity.WARNING)
    packages = _pack_with_progress(loaded, find_links)
    # What the packages bring is known now, if it wasn't before.
    unresolved = any(finding.rule == environments.FIXED_BY_PACKING for finding in findings)
    if unresolved and (wrong := select_errors(check(loaded))):
        return _print_problems(wrong, as_json)
    if as_json:
        click.echo(json.dumps([_convert_package(packed) for packed in packages], indent=2))
    else:
        for packed in packages:
            _print_package(packed, loaded.root)
        if not packages:
            click.echo(f"{loaded.name}: every model is already in S3, so there is nothing to pack")
    return 0


def _print_problems(problems: Sequence[Finding | PackagingError], as_json: bool) -> int:
    """Print why nothing is packed; `findings` of the JSON are those of `check --json`."""
    texts = [str(problem) for problem in problems]
    for text in texts:
        click.echo(text, err=True)
    if as_json:
        findings = [problem.as_json() for problem in problems if isinstance(problem, Finding)]
        click.echo(json.dumps({"problems": texts, "findings": findings}, indent=2))
    return 1


def _pack_with_progress(loaded: ValidFile, find_links: Path | None) -> list[Package]:
    bar = build_byte_progress(transient=True)
    bar.disable = not bar.console.is_terminal
    hashing, packing = (_add_progress_line(bar, what) for what in ("reading", "packing"))
    with bar:
        return list(pack_models(loaded, find_links=find_links, hashing=hashing, packing=packing))


def _add_progress_line(bar: Progress, what: str) -> Callback:
    """Return a callback that updates one line of the progress bar, visible from the first byte on."""
    task = bar.add_task(what, total=None, visible=False)
    return lambda done, total: bar.update(task, completed=done, total=total, visible=True)


def _list_archive(archive: Path, as_json: bool) -> int:
    members = list_members(archive)
    if as_json:
        click.echo(json.dumps([vars(member) for member in members], indent=2))
        return 0
    for member in sorted(members, key=lambda member: _is_package_file(member.display_name)):
        kind = "" if member.kind in ("file", "folder") else f"  ({member.kind})"
        name = f"{member.display_name}/" if member.kind == "folder" else member.display_name
        click.echo(f"{member.bytes:>15,}  {name}{kind}")
    return 0


def _verify_archive(archive: Path, loaded: ValidFile | None, as_json: bool) -> int:
    image = find_image_modules(loaded)
    seconds = find_response_limit(loaded.environment) if loaded else math.inf
    verified = verify(archive, python=image.python, provided=image.modules, seconds=seconds)
    verified = add_graph_faults(verified, loaded)
    if as_json:
        click.echo(json.dumps(_convert_verified(archive, verified), indent=2))
    else:
        _print_verified(archive, verified)
        for warning in verified.warnings:
            click.echo(f"warning: {warning}", err=True)
        for problem in verified.problems:
            click.echo(problem, err=True)
        if not verified.problems:
            version = find_tensorflow_version(loaded)
            checked = f"for the image of TensorFlow {version} in the parts that were checked"
            click.echo(f"  no problem found {checked}")
        click.echo(f"  checked: {LOOKED_AT}\n  not checked: {'; '.join(verified.not_looked_at)}")
    return 1 if verified.problems else 0


# What fits a screen with the signatures below it.
MOST_FILES = 12


def _is_package_file(name: str) -> bool:
    """Return whether an archive's file belongs to a vendored package; they are listed last."""
    return "/code/lib/" in f"/{name}/"


def _print_package(package: Package, root: Path) -> None:
    out = EscapingConsole(highlight=False, soft_wrap=True)
    before = package.tree.input_bytes
    if package.path is None:
        out.print(f"{package.model}: uploaded unpacked, under {package.key}/", style="bold")
        out.print(f"  {len(package.tree.files)} files, {before:,} bytes, nothing packed")
    else:
        after = package.path.stat().st_size
        took = f"packed in {package.packed.seconds:.1f} s" if package.packed else "packed before"
        out.print(f"{package.model}: {package.path.relative_to(root)}", style="bold")
        out.print(f"  {len(package.tree.files)} files, {before:,} bytes -> {after:,} bytes, {took}")
        out.print(f"  sha256 {package.sha256}")
    files = sorted(package.tree.files, key=lambda entry: _is_package_file(entry.name))
    for entry in files[:MOST_FILES]:
        out.print(f"  {entry.status.st_size:>15,}  {escape(entry.name)}")
    more = len(package.tree.files) - MOST_FILES
    if more > 0:
        out.print(f"  {'':>15}  and {more:,} more: --json, or --list the archive")
    for path in package.tree.left_out:
        shown = path.relative_to(root) if path.is_relative_to(root) else path
        out.print(f"  left out: {escape(str(shown))}")
    for name in package.wheels:
        out.print(f"  vendored: {escape(name)}")
    _print_signatures(out, package.versions)


def _print_verified(file: Path, verified: Verified) -> None:
    out = EscapingConsole(highlight=False, soft_wrap=True)
    unpacked = sum(member.bytes for member in verified.members)
    files = sum(member.kind == "file" for member in verified.members)
    out.print(escape(str(file)), style="bold")
    out.print(f"  {files} files, {unpacked:,} bytes -> {file.stat().st_size:,} bytes")
    out.print(f"  sha256 {verified.sha256}")
    _print_signatures(out, verified.versions)


def _print_signatures(
    out: EscapingConsole, versions: Iterable[tuple[str, int, SavedModelInfo]]
) -> None:
    for model, number, info in versions:
        table = Table("signature", "", "name", "type", "shape", box=None, padding=(0, 2))
        for signature, tensors in info.signatures.items():
            for way, specs in (("in", tensors.inputs), ("out", tensors.outputs)):
                for name, spec in specs.items():
                    sizes = None if spec.shape is None else map(str, spec.shape)
                    shape = "any" if sizes is None else f"[{', '.join(sizes)}]".replace("None", "n")
                    row = (signature, way, name, spec.dtype, shape)
                    table.add_row(*map(escape, row))
        warm = ", warm-up records" if info.has_warm_up else ""
        name = escape(f"{model}/{number}" if model else str(number))
        version = f"TensorFlow {escape(info.tensorflow_version) or 'unknown'}"
        out.print(f"  {name}: {version}, {info.variable_bytes:,} bytes of variables{warm}")
        out.print(table)


def _convert_package(package: Package) -> dict[str, Any]:
    return {
        "model": package.model,
        "key": package.key,
        "path": str(package.path) if package.path else None,
        "bytes": package.path.stat().st_size if package.path else None,
        "sha256": package.sha256,
        "input_bytes": package.tree.input_bytes,
        "seconds": package.packed.seconds if package.packed else None,
        "entries": [entry.name for entry in package.tree.files],
        "left_out": [str(path) for path in package.tree.left_out],
        "wheels": list(package.wheels),
        "versions": _convert_versions(package.versions),
    }


def _convert_verified(file: Path, verified: Verified) -> dict[str, Any]:
    return {
        "path": str(file),
        "bytes": file.stat().st_size,
        "sha256": verified.sha256,
        "entries": [dataclasses.asdict(member) for member in verified.members],
        "versions": _convert_versions(verified.versions),
        "problems": list(verified.problems),
        "warnings": list(verified.warnings),
        "looked_at": LOOKED_AT,
        "not_looked_at": "; ".join(verified.not_looked_at),
    }


def _convert_versions(versions: Iterable[tuple[str, int, SavedModelInfo]]) -> list[dict[str, Any]]:
    return [
        {
            "model": model,
            "version": number,
            "tensorflow_version": info.tensorflow_version,
            "variable_bytes": info.variable_bytes,
            "assets": list(info.assets),
            "has_warm_up": info.has_warm_up,
            "signatures": {key: dataclasses.asdict(one) for key, one in info.signatures.items()},
        }
        for model, number, info in versions
    ]
