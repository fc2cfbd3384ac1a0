"""Look up SageMaker's TensorFlow Serving images, by version, device and region, and what is in them.

These are modules of Python, and operations of TensorFlow Serving, with their attributes and CPU kernels.
"""

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from infra.catalog.limits import load_table


@dataclass(frozen=True)
class Image:
    """A published image in one region, whose registry is `account`."""

    account: str
    region: str
    repository: str
    tag: str
    own_uri: str | None = None
    """The address from the environment file, for your own image."""

    @property
    def uri(self) -> str:
        registry = f"{self.account}.dkr.ecr.{self.region}.{find_domain(self.region)}"
        return self.own_uri or f"{registry}/{self.repository}:{self.tag}"


@functools.cache
def list_versions() -> tuple[str, ...]:
    """Return the TensorFlow versions that have an image, oldest first."""
    return tuple(load_table("images")["versions"])


def find_registries(version: str) -> dict[str, str]:
    """Return a dict from Region to registry account, for the image of a TensorFlow version."""
    images = load_table("images")
    return dict(images["registries"][images["versions"][version]["registries"]])


def list_regions(version: str) -> tuple[str, ...]:
    """Return the Regions that have the image of a TensorFlow version."""
    return tuple(find_registries(version))


def find_domain(region: str) -> str:
    """Return the domain of AWS's services in the partition of a Region."""
    return str(load_table("images")["domains"].get(region, "amazonaws.com"))


def list_registry_accounts(region: str | None = None) -> frozenset[str]:
    """Return the accounts whose registries contain AWS's images, in one Region or in any."""
    rows = [row for registry in load_table("images")["registries"] for row in registry.items()]
    return frozenset(account for place, account in rows if region in (None, place))


def find_image(*, version: str, device: str, region: str) -> Image:
    """Return the image of a TensorFlow version for cpu or gpu. Raise KeyError if none exists."""
    images = load_table("images")
    row = images["versions"][version]
    return Image(
        account=images["registries"][row["registries"]][region],
        region=region,
        repository=images["repository"],
        tag=row["tag"][device],
    )


# https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html (2026-11-21)
_OWN = re.compile(
    r"(?P<account>[0-9]{12})\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.[a-z0-9.-]+?"
    r"/(?P<repository>[a-z0-9][a-z0-9._/-]*)(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


def parse_own_image(uri: str) -> Image | None:
    """Parse the ECR address of the user's own image. Return None for any other address.

    `tag` is empty if the address has only a digest, and 'latest' if it has neither.
    """
    match = _OWN.fullmatch(uri)
    if match is None:
        return None
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return Image(match["account"], match["region"], match["repository"], tag, own_uri=uri)


def find_end_of_patch(version: str, *, on: str | None = None) -> str | None:
    """Return the day on which AWS stopped patching this version or a newer one, or None.

    `on` is a day such as 2026-11-21. The default is the catalog's day, not the clock's, so that
    the same file always gives the same findings.
    """
    facts = load_table("image_facts")
    ends = [
        (parse_version(short), row["end_of_patch"])
        for short, row in facts["versions"].items()
        if row.get("end_of_patch", "9999") <= (on or facts["date"])
    ]
    return next((end for short, end in sorted(ends) if short >= parse_version(version)), None)


def parse_version(version: str) -> tuple[int, ...]:
    """Convert a version to numbers for comparisons: 2.19.1 becomes (2, 19)."""
    return tuple(int(part) for part in version.split("."))[:2]


def has_feature(what: str, version: str) -> bool:
    """Return whether the image of a version has a feature.

    `what` is a row of `since` in image_facts.json. Raises KeyError for an unknown feature.
    """
    since = load_table("image_facts")["since"][what]["version"]
    return parse_version(version) >= parse_version(since)


def find_cuda(version: str) -> str | None:
    """Return the CUDA version of the GPU image, for example '12.9', or None if not stated."""
    cuda: str | None = _find_fact(version, "cuda")
    return cuda


def infer_cuda(version: str) -> str:
    """Return `find_cuda`, or the CUDA version of TensorFlow's wheel if no source states it."""
    since: dict[str, str] = load_table("image_facts")["built_with_cuda"]["since"]
    asked = parse_version(version)
    built = [cuda for first, cuda in since.items() if parse_version(first) <= asked]
    return find_cuda(version) or built[-1]


def find_python(version: str) -> str | None:
    """Return the Python version that runs inference.py, for example '3.12', or None."""
    python: str | None = _find_fact(version, "python")
    return python


@dataclass(frozen=True)
class ImageModules:
    """The modules that code in an image can import."""

    python: str
    """"3.12"."""
    modules: frozenset[str]
    """Top-level names in addition to the standard library. tensorflow is never one: the model server is
    a separate program."""


def find_modules(version: str) -> ImageModules | None:
    """Return the modules of a version's image, or None if they aren't known."""
    modules = _find_fact(version, "modules")
    if isinstance(modules, str):  # a list that several versions share
        modules = load_table("image_facts")["modules"][modules]["names"]
    return modules and ImageModules(_find_fact(version, "python"), frozenset(modules))


def _find_fact(version: str, name: str) -> Any:
    short = ".".join(version.split(".")[:2])
    return load_table("image_facts")["versions"].get(short, {}).get(name)


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
        """Load the facts of `version`, a row of op_versions.json, such as 2.20."""
        facts = load_table("op_versions")["versions"][version]
        self.version = version
        self.graph_def: int = facts["graph_def"]
        self.min_producer: int = facts["min_producer"]
        oldest, newest = facts["xla_call_module_from"], facts["xla_call_module_to"]
        self.xla_call_module: tuple[int | None, int | None] = oldest, newest
        """The oldest and the newest version of XlaCallModule; None if TensorFlow does not check it."""
        bytecode = facts["mlir_bytecode"]
        self.mlir_bytecode: int = -1 if bytecode is None else bytecode
        """The newest version of MLIR's bytecode in which it reads StableHLO; -1 if none."""
        self.stablehlo: str | None = facts["stablehlo"]
        """The version of StableHLO that it contains, for example 1.12.1; None if it states none."""

    def __contains__(self, op: str) -> bool:
        return self.get(op) is not None

    def get(self, op: str) -> OpDefinition | None:
        return _parse_definition(op, self.version)


@functools.cache
def find_op_table(version: str) -> OpTable | None:
    """Return the table of a TensorFlow version such as 2.20 or 2.20.0, or None if unknown."""
    short = ".".join(version.split(".")[:2])
    return OpTable(short) if short in load_table("op_versions")["versions"] else None


@functools.cache
def load_op_tables() -> tuple[OpTable, ...]:
    """Return all tables, oldest version first."""
    return tuple(OpTable(version) for version in load_table("op_versions")["versions"])


def list_operation_tables() -> tuple[OpTable, ...]:
    """Return the tables of the versions that have an image, oldest first."""
    return tuple(table for table in load_op_tables() if table.version in list_versions())


@functools.cache
def _read_lines() -> dict[str, str]:
    """Return a dict from operation to its unparsed line of ops.jsonl. A model needs a few."""
    text = resources.files("infra.catalog").joinpath("ops.jsonl").read_text(encoding="utf-8")
    return {line[2 : line.index('"', 2)]: line for line in text.splitlines()}


@functools.cache
def _parse_definition(op: str, version: str) -> OpDefinition | None:
    line = _read_lines().get(op)
    if line is None:
        return None
    _, by_version = json.loads(line)
    # A definition applies from its version on, until the next one; null means removed.
    since = [first for first in by_version if parse_version(first) <= parse_version(version)]
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
