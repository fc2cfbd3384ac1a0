"""The operations that TensorFlow Serving has in each image, with their attributes and CPU kernels."""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from infra.catalog import images
from infra.catalog.table import table

REQUIRED = ("", None)
"""Stands for the missing default of an attribute that every node must state."""


@dataclass(frozen=True)
class OpAttribute:
    """An attribute as the operation declares it."""

    kind: str
    """The kind as TensorFlow writes it: "type", "int", "list(type)", "func" …"""
    default: tuple[str, Any]
    """The default's kind and value as `model_packaging.saved_model.operations` reads them, or `REQUIRED`."""
    allowed: tuple[Any, ...] | None
    minimum: int | None
    """The least value of an int, or the least length of a list."""


@dataclass(frozen=True)
class OpDefinition:
    """An operation in one version of TensorFlow."""

    attributes: Mapping[str, OpAttribute]
    cpu: tuple[Mapping[str, frozenset[int]], ...]
    """For each kernel the types that attributes may have; other attributes may have any type."""
    removed_in: int | None
    """The GraphDef version from which on graphs may not have the operation; None if any may."""


class OpTable:
    """The operations of one version of TensorFlow, with those that TensorFlow Serving adds."""

    def __init__(self, version: str) -> None:
        """`version` is a row of op_versions.json, for example 2.20."""
        facts = table("op_versions")["versions"][version]
        self.version = version
        self.graph_def: int = facts["graph_def"]
        self.min_producer: int = facts["min_producer"]
        self.xla_call_module: tuple[int | None, int | None] = (
            facts["xla_call_module_from"],
            facts["xla_call_module_to"],
        )
        """The oldest and the newest version of XlaCallModule; None if TensorFlow does not check it."""
        bytecode = facts["mlir_bytecode"]
        self.mlir_bytecode: int = -1 if bytecode is None else bytecode
        """The newest version of MLIR's bytecode in which it reads StableHLO; -1 if none."""
        self.stablehlo: str | None = facts["stablehlo"]
        """The version of StableHLO that it contains, for example 1.12.1; None if it states none."""

    def __contains__(self, op: str) -> bool:
        return self.get(op) is not None

    def get(self, op: str) -> OpDefinition | None:
        return _definition(op, self.version)


@functools.cache
def op_table(version: str) -> OpTable | None:
    """The table of a TensorFlow version such as 2.20 or 2.20.0; None if it is not known."""
    short = ".".join(version.split(".")[:2])
    return OpTable(short) if short in table("op_versions")["versions"] else None


@functools.cache
def tables() -> tuple[OpTable, ...]:
    """All tables, oldest version first."""
    return tuple(OpTable(version) for version in table("op_versions")["versions"])


def image_tables() -> tuple[OpTable, ...]:
    """Tables of the versions that have an image, oldest first."""
    return tuple(table for table in tables() if table.version in images.versions())


@functools.cache
def _lines() -> dict[str, str]:
    """Operation to its line, which is parsed only when needed: a model has a few of the 2,000."""
    text = resources.files("infra.catalog").joinpath("ops.jsonl").read_text(encoding="utf-8")
    return {line[2 : line.index('"', 2)]: line for line in text.splitlines()}


@functools.cache
def _definition(op: str, version: str) -> OpDefinition | None:
    line = _lines().get(op)
    if line is None:
        return None
    _, by_version = json.loads(line)
    # A definition holds from its version on, until the next one; null means removed.
    since = [first for first in by_version if images.number(first) <= images.number(version)]
    row: Mapping[str, Any] | None = by_version[since[-1]] if since else None
    if row is None:
        return None
    return OpDefinition(
        attributes={
            name: OpAttribute(
                kind=attribute["type"],
                default=tuple(attribute["default"]) if "default" in attribute else REQUIRED,
                allowed=tuple(attribute["allowed"]) if "allowed" in attribute else None,
                minimum=attribute.get("minimum"),
            )
            for name, attribute in row.get("attributes", {}).items()
        },
        cpu=tuple(
            {name: frozenset(types) for name, types in kernel.items()}
            for kernel in row.get("cpu", ())
        ),
        removed_in=row.get("removed_in"),
    )
