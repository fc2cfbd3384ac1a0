"""Reads the catalog's JSON tables."""

import functools
import json
from importlib import resources
from typing import Any


@functools.cache
def table(name: str) -> dict[str, Any]:
    """The content of `infra/catalog/NAME.json`, read once. Every table states its source and date."""
    text = resources.files("infra.catalog").joinpath(f"{name}.json").read_text(encoding="utf-8")
    parsed: dict[str, Any] = json.loads(text)
    return parsed
