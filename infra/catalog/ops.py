"""The operations that TensorFlow Serving knows in each image, and which of them have a CPU kernel."""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from infra.catalog import images
from infra.catalog.table import table

REQUIRED = ("", None)
"""In the place of the default of an attribute that every node states."""


@dataclass(frozen=True)
class OpAttribute:
    """An attribute as the operation declares it."""

    kind: str
    """As TensorFlow writes it: "type", "int", "list(type)", "func" …"""
    default: tuple[str, Any]
    """Kind and value, as `model_packaging.saved_model.operations` reads them; or `REQUIRED`."""
    allowed: tuple[Any, ...] | None
    minimum: int | None
    """Of an int; of a list, how many it has at least."""


@dataclass(frozen=True)
class OpDefinition:
    """One operation of one version."""

    attributes: Mapping[str, OpAttribute]
    cpu: tuple[Mapping[str, frozenset[int]], ...]
    """For each kernel the types that its attributes may have; an attribute not named may have any."""
    removed_in: int | None
    """Graphs of this version of GraphDef and newer may not have it."""


class OpTable:
    """What one version of TensorFlow, with what TensorFlow Serving adds to it, has."""

    def __init__(self, version: str) -> None:
        """`version`: as 2.20, a row of op_versions.json."""
        facts = table("op_versions")["versions"][version]
        self.version = version
        self.graph_def: int = facts["graph_def"]
        self.min_producer: int = facts["min_producer"]
        self.xla_call_module: tuple[int | None, int | None] = (
            facts["xla_call_module_from"],
            facts["xla_call_module_to"],
        )
        """The oldest and the newest version of XlaCallModule; None where it does not look."""
        bytecode = facts["mlir_bytecode"]
        self.mlir_bytecode: int = -1 if bytecode is None else bytecode
        """The newest version of MLIR's bytecode in which it reads StableHLO; -1: in none."""
        self.stablehlo: str | None = facts["stablehlo"]
        """Its own version of StableHLO, as 1.12.1; None where it does not say."""

    def __contains__(self, op: str) -> bool:
        return self.get(op) is not None

    def get(self, op: str) -> OpDefinition | None:
        return _definition(op, self.version)


@functools.cache
def op_table(version: str) -> OpTable | None:
    """Of the image of a TensorFlow version, as 2.20 or 2.20.0; None where nobody has looked."""
    short = ".".join(version.split(".")[:2])
    return OpTable(short) if short in table("op_versions")["versions"] else None


@functools.cache
def tables() -> tuple[OpTable, ...]:
    """All, oldest first."""
    return tuple(OpTable(one) for one in table("op_versions")["versions"])


def image_tables() -> tuple[OpTable, ...]:
    """Of the versions that have an image, oldest first."""
    return tuple(one for one in tables() if one.version in images.versions())


@functools.cache
def _lines() -> dict[str, str]:
    """Of each operation its line: parsed when it is asked for, since a model has a few of 2,000."""
    text = resources.files("infra.catalog").joinpath("ops.jsonl").read_text(encoding="utf-8")
    return {line[2 : line.index('"', 2)]: line for line in text.splitlines()}


@functools.cache
def _definition(op: str, version: str) -> OpDefinition | None:
    line = _lines().get(op)
    if line is None:
        return None
    _, by_version = json.loads(line)
    # A definition holds from its version on, until another one, or null where it went.
    since = [one for one in by_version if images.number(one) <= images.number(version)]
    row = by_version[since[-1]] if since else None
    return None if row is None else _parsed(row)


def _parsed(row: Mapping[str, Any]) -> OpDefinition:
    return OpDefinition(
        attributes={
            name: OpAttribute(
                kind=one["type"],
                default=tuple(one["default"]) if "default" in one else REQUIRED,
                allowed=tuple(one["allowed"]) if "allowed" in one else None,
                minimum=one.get("minimum"),
            )
            for name, one in row.get("attributes", {}).items()
        },
        cpu=tuple(
            {name: frozenset(types) for name, types in one.items()} for one in row.get("cpu", ())
        ),
        removed_in=row.get("removed_in"),
    )
