"""Read the catalog's JSON tables, and the ranges that AWS accepts: by its service models, or documented."""

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


def limit(shape: str, *, service: str = "sagemaker") -> dict[str, Any]:
    """The min, max, pattern and enum that the service model states for a shape.

    Raises KeyError for a shape that limits.json does not have.
    """
    limits: dict[str, Any] = table("limits")["services"][service][shape]
    return limits


def most(shape: str, *, service: str = "sagemaker") -> int:
    """The largest value, length or count that the shape allows."""
    return int(limit(shape, service=service)["max"])


def least(shape: str, *, service: str = "sagemaker") -> int:
    """The smallest value, length or count that the shape allows."""
    return int(limit(shape, service=service)["min"])


def documented(name: str) -> Any:
    """A limit that only AWS's documentation states. Raises KeyError."""
    return table("documented_limits")["limits"][name]["value"]
