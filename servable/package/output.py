"""Output of `servable package` about an archive: a table for people, JSON for programs."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from model_packaging.saved_model import SavedModelInfo
from model_packaging.verification import LOOKED_AT, Verified
from servable.console.lines import EscapingConsole
from servable.package.package import Package

# What fits a screen with the signatures below it.
MOST_FILES = 12


def is_of_packages(name: str) -> bool:
    """Return whether an archive's file is of a package: hundreds of them would hide the user's files."""
    return "/code/lib/" in f"/{name}/"


def _console() -> EscapingConsole:
    return EscapingConsole(highlight=False, soft_wrap=True)


def show(package: Package, root: Path) -> None:
    out = _console()
    before = package.tree.input_bytes
    if package.path is None:
        out.print(f"{package.model}: uploaded as it is, under {package.key}/", style="bold")
        out.print(f"  {len(package.tree.files)} files, {before:,} bytes, nothing packed")
    else:
        after = package.path.stat().st_size
        took = f"packed in {package.packed.seconds:.1f} s" if package.packed else "packed before"
        out.print(f"{package.model}: {package.path.relative_to(root)}", style="bold")
        out.print(f"  {len(package.tree.files)} files, {before:,} bytes -> {after:,} bytes, {took}")
        out.print(f"  sha256 {package.sha256}")
    files = sorted(package.tree.files, key=lambda entry: is_of_packages(entry.name))
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
    _signatures(out, package.versions)


def show_verified(file: Path, verified: Verified) -> None:
    out = _console()
    unpacked = sum(member.bytes for member in verified.members)
    files = sum(member.kind == "file" for member in verified.members)
    out.print(escape(str(file)), style="bold")
    out.print(f"  {files} files, {unpacked:,} bytes -> {file.stat().st_size:,} bytes")
    out.print(f"  sha256 {verified.sha256}")
    _signatures(out, verified.versions)


def _signatures(out: EscapingConsole, versions: Iterable[tuple[str, int, SavedModelInfo]]) -> None:
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
        out.print(
            f"  {escape(f'{model}/{number}' if model else str(number))}: "
            f"TensorFlow {escape(info.tensorflow_version) or 'unknown'}, "
            f"{info.variable_bytes:,} bytes of variables{warm}"
        )
        out.print(table)


def package_json(package: Package) -> dict[str, Any]:
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
        "versions": _versions(package.versions),
    }


def verified_json(file: Path, verified: Verified) -> dict[str, Any]:
    return {
        "path": str(file),
        "bytes": file.stat().st_size,
        "sha256": verified.sha256,
        "entries": [dataclasses.asdict(member) for member in verified.members],
        "versions": _versions(verified.versions),
        "problems": list(verified.problems),
        "warnings": list(verified.warnings),
        "looked_at": LOOKED_AT,
        "not_looked_at": "; ".join(verified.not_looked_at),
    }


def _versions(versions: Iterable[tuple[str, int, SavedModelInfo]]) -> list[dict[str, Any]]:
    return [
        {
            "model": model,
            "version": number,
            "tensorflow_version": info.tensorflow_version,
            "variable_bytes": info.variable_bytes,
            "assets": list(info.assets),
            "has_warm_up": info.has_warm_up,
            "signatures": {
                name: dataclasses.asdict(signature) for name, signature in info.signatures.items()
            },
        }
        for model, number, info in versions
    ]
