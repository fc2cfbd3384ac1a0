"""How `servable package --json` says the same to programs."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from model_packaging.saved_model import SavedModelInfo
from model_packaging.verification import Verified
from servable.package.package import Package


def package(one: Package) -> dict[str, Any]:
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


def verified(file: Path, one: Verified) -> dict[str, Any]:
    return {
        "path": str(file),
        "bytes": file.stat().st_size,
        "sha256": one.sha256,
        "entries": [dataclasses.asdict(member) for member in one.members],
        "versions": _versions(one.versions),
        "problems": list(one.problems),
        "warnings": list(one.warnings),
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
