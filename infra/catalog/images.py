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

from infra.catalog.limits import table


@dataclass(frozen=True)
class Image:
    """A published image in one region."""

    account: str
    """Account id of the registry."""
    region: str
    repository: str
    tag: str
    own_uri: str | None = None
    """The address from the environment file, for your own image."""

    @property
    def uri(self) -> str:
        if self.own_uri is not None:
            return self.own_uri
        return f"{self.account}.dkr.ecr.{self.region}.{domain(self.region)}/{self.repository}:{self.tag}"


@functools.cache
def versions() -> tuple[str, ...]:
    """TensorFlow versions that have an image, oldest first."""
    return tuple(table("images")["versions"])


def registries(version: str) -> dict[str, str]:
    """The regions that have the image of this TensorFlow version, to the accounts of its registries."""
    images = table("images")
    return dict(images["registries"][images["versions"][version]["registries"]])


def regions(version: str) -> tuple[str, ...]:
    """Regions that have the image of this TensorFlow version."""
    return tuple(registries(version))


def domain(region: str) -> str:
    """The domain of AWS's services in a region's partition."""
    return str(table("images")["domains"].get(region, "amazonaws.com"))


def registry_accounts(region: str | None = None) -> frozenset[str]:
    """Accounts whose registries hold AWS's images, in this region or in any."""
    registries: list[dict[str, str]] = table("images")["registries"]
    return frozenset(
        account
        for registry in registries
        for place, account in registry.items()
        if region in (None, place)
    )


def image(*, version: str, device: str, region: str) -> Image:
    """The image of a TensorFlow version for cpu or gpu. Raises KeyError if there is none."""
    images = table("images")
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


def own_image(uri: str) -> Image | None:
    """Parses the address of your own image in ECR; None if it is not an ECR address.

    `tag` is empty if the address has only a digest, and 'latest' if it has neither.
    """
    match = _OWN.fullmatch(uri)
    if match is None:
        return None
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return Image(match["account"], match["region"], match["repository"], tag, own_uri=uri)


def ended(version: str, *, on: str | None = None) -> str | None:
    """The day on which patches of this version, or of a newer one, ended; None if they have not.

    `on` is a day such as 2026-11-21. By default it is the catalog's day and not the clock's, so that
    the same file always gives the same findings.
    """
    facts = table("image_facts")
    day = on or facts["date"]
    ends = {
        number(short): row["end_of_patch"]
        for short, row in facts["versions"].items()
        if row.get("end_of_patch", "9999") <= day
    }
    later = [end for short, end in sorted(ends.items()) if short >= number(version)]
    return later[0] if later else None


def number(version: str) -> tuple[int, ...]:
    """The version as numbers for comparisons: 2.19.1 is (2, 19)."""
    return tuple(int(part) for part in version.split("."))[:2]


def has(what: str, version: str) -> bool:
    """Whether the image of this version has a feature, a row of image_facts.json's `since`.

    Raises KeyError for an unknown feature.
    """
    return number(version) >= number(table("image_facts")["since"][what]["version"])


def cuda(version: str) -> str | None:
    """CUDA version of the version's GPU image, for example '12.9'; None if no source states it."""
    return _fact(version, "cuda")


def built_cuda(version: str) -> str:
    """`cuda`, or if no source states it, the CUDA version that TensorFlow's wheel is built with."""
    since: dict[str, str] = table("image_facts")["built_with_cuda"]["since"]
    built = [built for first, built in since.items() if number(first) <= number(version)]
    return cuda(version) or built[-1]


def python(version: str) -> str | None:
    """Python version that runs inference.py, for example '3.12'; None if no source states it."""
    return _fact(version, "python")


@dataclass(frozen=True)
class ImageModules:
    """The modules that code in an image can import."""

    python: str
    """"3.12"."""
    modules: frozenset[str]
    """Top-level names in addition to the standard library. tensorflow is never one: the model server is
    a separate program."""


def image_modules(version: str) -> ImageModules | None:
    """The modules of the version's image; None if they are not known."""
    facts = table("image_facts")
    row = facts["versions"].get(_short(version), {})
    modules = row.get("modules")
    if modules is None:
        return None
    if isinstance(modules, str):  # a list that several versions share
        modules = facts["modules"][modules]["names"]
    return ImageModules(row["python"], frozenset(modules))


def _fact(version: str, name: str) -> str | None:
    fact: str | None = table("image_facts")["versions"].get(_short(version), {}).get(name)
    return fact


def _short(version: str) -> str:
    return ".".join(version.split(".")[:2])


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
    return tuple(table for table in tables() if table.version in versions())


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
    since = [first for first in by_version if number(first) <= number(version)]
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
