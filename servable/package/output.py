"""How `servable package` shows an archive: a table for people, JSON for programs."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from model_packaging.saved_model import SavedModelInfo
from model_packaging.verification import LOOKED_AT, NOT_LOOKED_AT, Verified
from servable.package.package import Package

# What fits a screen with the signatures below it.
MOST_FILES = 12


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def show(one: Package, root: Path) -> None:
    out = _console()
    before = one.tree.input_bytes
    if one.path is None:
        out.print(f"{one.model}: uploaded as it is, under {one.key}/", style="bold")
        out.print(f"  {len(one.tree.files)} files, {before:,} bytes, nothing packed")
    else:
        after = one.path.stat().st_size
        took = f"packed in {one.packed.seconds:.1f} s" if one.packed else "packed before"
        out.print(f"{one.model}: {one.path.relative_to(root)}", style="bold")
        out.print(f"  {len(one.tree.files)} files, {before:,} bytes -> {after:,} bytes, {took}")
        out.print(f"  sha256 {one.sha256}")
    for entry in one.tree.files[:MOST_FILES]:
        out.print(f"  {entry.status.st_size:>15,}  {escape(entry.name)}")
    more = len(one.tree.files) - MOST_FILES
    if more > 0:
        out.print(f"  {'':>15}  and {more:,} more: --json, or --list the archive")
    for path in one.tree.left_out:
        shown = path.relative_to(root) if path.is_relative_to(root) else path
        out.print(f"  left out: {escape(str(shown))}")
    for name in one.wheels:
        out.print(f"  vendored: {escape(name)}")
    _signatures(out, one.versions)


def show_verified(file: Path, one: Verified) -> None:
    out = _console()
    unpacked = sum(member.bytes for member in one.members)
    files = sum(member.kind == "file" for member in one.members)
    out.print(escape(str(file)), style="bold")
    out.print(f"  {files} files, {unpacked:,} bytes -> {file.stat().st_size:,} bytes")
    out.print(f"  sha256 {one.sha256}")
    _signatures(out, one.versions)


def _signatures(out: Console, versions: Iterable[tuple[str, int, SavedModelInfo]]) -> None:
    for model, number, info in versions:
        table = Table("signature", "", "name", "type", "shape", box=None, padding=(0, 2))
        for signature, said in info.signatures.items():
            for way, specs in (("in", said.inputs), ("out", said.outputs)):
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


def package_json(one: Package) -> dict[str, Any]:
    return {
        "model": one.model,
        "key": one.key,
        "path": str(one.path) if one.path else None,
        "bytes": one.path.stat().st_size if one.path else None,
        "sha256": one.sha256,
        "input_bytes": one.tree.input_bytes,
        "seconds": one.packed.seconds if one.packed else None,
        "entries": [entry.name for entry in one.tree.files],
        "left_out": [str(path) for path in one.tree.left_out],
        "wheels": list(one.wheels),
        "versions": _versions(one.versions),
    }


def verified_json(file: Path, one: Verified) -> dict[str, Any]:
    return {
        "path": str(file),
        "bytes": file.stat().st_size,
        "sha256": one.sha256,
        "entries": [dataclasses.asdict(member) for member in one.members],
        "versions": _versions(one.versions),
        "problems": list(one.problems),
        "warnings": list(one.warnings),
        "looked_at": LOOKED_AT,
        "not_looked_at": NOT_LOOKED_AT,
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
