"""The request that synth writes, and the archive that publishing makes of it."""

import json
import sys
from pathlib import Path
from typing import Any

from model_packaging.archive import pack_tree
from model_packaging.inputs import ArchiveInputs
from model_packaging.manifest import key_tree_and_hashes
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
    code, lib = (Path(path) if path else None for path in (request["code"], request["lib"]))
    servables = []
    for given in request["servables"]:
        warm_up = Path(given["warm_up"]) if given["warm_up"] else None
        servables.append(Servable(**given | {"folder": Path(given["folder"]), "warm_up": warm_up}))
    inputs = ArchiveInputs(
        servables=tuple(servables), code=code, lib=lib, handler=request["handler"]
    )
    archives = Path(request["archives"])
    key, tree, _ = key_tree_and_hashes(inputs, cache=archives.parent)
    # The template already names the object after this key.
    if key != request["key"]:
        problem = "changed between synth and publishing"
        raise PackagingError(inputs.servables[0].folder, problem, "deploy again")
    target = archives / f"{key}.tar.gz"
    if not target.exists():
        pack_tree(tree, target)
    return target
