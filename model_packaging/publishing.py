"""What synth asks for, and what publishing makes of it."""

import json
import sys
from pathlib import Path
from typing import Any

from model_packaging.archive import pack_tree
from model_packaging.inputs import ArchiveInputs
from model_packaging.manifest import key_and_tree
from model_packaging.refusal import PackagingError
from model_packaging.servable import Servable


def command(inputs: ArchiveInputs, *, expected_key: str, archives: Path) -> list[str]:
    """The command that packs these inputs; run by the CDK CLI when it publishes, and only then."""
    request = {
        "key": expected_key,
        "servables": [vars(servable) for servable in inputs.servables],
        "code": inputs.code,
        "lib": inputs.lib,
        "handler": inputs.handler,
        "archives": archives,
    }
    folder = str(Path(__file__).parent)
    return [sys.executable, folder, json.dumps(request, default=str)]


def publish(request: dict[str, Any]) -> Path:
    """The archive of a request, packed unless an earlier run did. Raises `PackagingError`."""
    inputs = ArchiveInputs(
        servables=tuple(_servable(one) for one in request["servables"]),
        code=_path(request["code"]),
        lib=_path(request["lib"]),
        handler=request["handler"],
    )
    archives = Path(request["archives"])
    found, tree = key_and_tree(inputs, cache=archives.parent)
    # The template already names the object after this key.
    if found != request["key"]:
        problem = "changed between synth and publishing"
        raise PackagingError(inputs.servables[0].folder, problem, "deploy again")
    target = archives / f"{found}.tar.gz"
    if not target.exists():
        pack_tree(tree, target)
    return target


def _servable(said: dict[str, Any]) -> Servable:
    paths = {"folder": Path(said["folder"]), "warm_up": _path(said["warm_up"])}
    return Servable(**{**said, **paths})


def _path(said: str | None) -> Path | None:
    return Path(said) if said else None
