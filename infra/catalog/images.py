"""SageMaker's TensorFlow Serving images, by version, device and region."""

import functools
import re
from dataclasses import dataclass

from infra.catalog.table import table


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
