"""A file made of the valid one and some lines over it."""

import copy
import tomllib
from pathlib import Path
from typing import Any

import tomlkit

from infra.parameters.loading import Loaded, load
from tests.conftest import VALID

_VALID = tomllib.loads(VALID)
# A whole file: lines over the valid one would keep its instance type.
SERVERLESS = VALID.replace(
    'instance_type = "ml.c5.xlarge"', "serverless = { memory_mib = 2048, max_concurrency = 5 }"
)


def overlaid(project: Path, lines: str, name: str = "prod") -> Loaded:
    """`lines`: TOML over the valid file; tables merge, a model has one source, and a variant one
    of instance_type, instance_pools and serverless."""
    over = tomllib.loads(lines)
    values = copy.deepcopy(_VALID)
    model = over.get("models", {}).get("ranker", {})
    if "artifact" in model and "saved_model" not in model:
        del values["models"]["ranker"]["saved_model"]
    primary = over.get("variants", {}).get("primary", {})
    if "instance_pools" in primary and "instance_type" not in primary:
        del values["variants"]["primary"]["instance_type"]
    _merge(values, over)
    folder = project / "environments"
    (folder / f"{name}.toml").write_text(tomlkit.dumps(values))
    return next(loaded for loaded in load(project, folder) if loaded.name == name)


def _merge(into: dict[str, Any], over: dict[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
