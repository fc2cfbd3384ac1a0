"""Read the catalog's JSON tables, and the ranges that AWS accepts: by its service models, or documented."""

import functools
import json
from importlib import resources
from typing import Any


@functools.cache
def load_table(name: str) -> dict[str, Any]:
    """Read `infra/catalog/NAME.json` once. Every table states its source and date."""
    text = resources.files("infra.catalog").joinpath(f"{name}.json").read_text(encoding="utf-8")
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def find_limit(shape: str, *, service: str = "sagemaker") -> dict[str, Any]:
    """Return the min, max, pattern, and enum that the service model states for a shape.

    Raises KeyError for a shape that limits.json doesn't have.
    """
    limits: dict[str, Any] = load_table("limits")["services"][service][shape]
    return limits


def find_maximum(shape: str, *, service: str = "sagemaker") -> int:
    """Return the largest value, length, or count that the shape allows."""
    return int(find_limit(shape, service=service)["max"])


def find_minimum(shape: str, *, service: str = "sagemaker") -> int:
    """Return the smallest value, length, or count that the shape allows."""
    return int(find_limit(shape, service=service)["min"])


def find_documented_limit(name: str) -> Any:
    """Return a limit that only AWS's documentation states. Raise KeyError if unknown."""
    return load_table("documented_limits")["limits"][name]["value"]
