"""The ranges that AWS accepts, generated from its service models or taken from its documentation."""

from typing import Any

from infra.catalog.table import table


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
