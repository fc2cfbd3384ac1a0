"""SageMaker's TensorFlow Serving images: which version, for which device, in which region."""

import functools
import re
from dataclasses import dataclass

from infra.catalog.table import table


@dataclass(frozen=True)
class Image:
    """One published image, in one region."""

    account: str
    """Of the registry, not ours."""
    region: str
    repository: str
    tag: str
    own_uri: str | None = None
    """As the file gives it, for an image of one's own."""

    @property
    def uri(self) -> str:
        if self.own_uri is not None:
            return self.own_uri
        domain = table("images")["domains"].get(self.region, "amazonaws.com")
        return f"{self.account}.dkr.ecr.{self.region}.{domain}/{self.repository}:{self.tag}"


@functools.cache
def versions() -> tuple[str, ...]:
    """TensorFlow versions that have an image, oldest first."""
    return tuple(table("images")["versions"])


def regions(version: str) -> tuple[str, ...]:
    """Regions that have the image of this TensorFlow version."""
    images = table("images")
    return tuple(images["registries"][images["versions"][version]["registries"]])


def registry_accounts(region: str | None = None) -> frozenset[str]:
    """Accounts whose registries hold AWS's images, in this region or in any."""
    registries: list[dict[str, str]] = table("images")["registries"]
    return frozenset(
        account for one in registries for place, account in one.items() if region in (None, place)
    )


def image(*, version: str, device: str, region: str) -> Image:
    """The image of a TensorFlow version for cpu or gpu. Raises KeyError where there is none."""
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
    """An image of one's own, in a registry of ECR; None when the address is not of that form.

    `tag` is empty where the address has a digest alone, and 'latest' where it has neither.
    """
    found = _OWN.fullmatch(uri)
    if found is None:
        return None
    tag = found["tag"] or ("" if found["digest"] else "latest")
    return Image(found["account"], found["region"], found["repository"], tag, own_uri=uri)


def ended(version: str, *, on: str | None = None) -> str | None:
    """The day patches of this version, or of a newer one, ended; None while none of them has.

    `on`: a day, as 2026-11-21. Left out, the day of the catalog and not of a clock: the same
    file checks the same.
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
    """2.19.1 as (2, 19), to compare versions."""
    return tuple(int(part) for part in version.split("."))[:2]


def has(what: str, version: str) -> bool:
    """Whether the image of this version is new enough for a row of image_facts.json's `since`.

    Raises KeyError for what is not there.
    """
    return number(version) >= number(table("image_facts")["since"][what]["version"])


def cuda(version: str) -> str | None:
    """CUDA of the version's GPU image, as '12.9'; None where no source states it."""
    return _fact(version, "cuda")


def built_cuda(version: str) -> str:
    """`cuda`, or where no source states it what TensorFlow of this version is built with."""
    since: dict[str, str] = table("image_facts")["built_with_cuda"]["since"]
    return (
        cuda(version)
        or [found for first, found in since.items() if number(first) <= number(version)][-1]
    )


def python(version: str) -> str | None:
    """Python that runs inference.py, as '3.12'; None where no source states it."""
    return _fact(version, "python")


@dataclass(frozen=True)
class ImageModules:
    """What code in one image can import."""

    python: str
    """"3.12"."""
    modules: frozenset[str]
    """Top-level names beside the standard library. tensorflow is in none: the model server is a
    program of its own."""


def image_modules(version: str) -> ImageModules | None:
    """Of the version's image; None where nobody has looked into it."""
    facts = table("image_facts")["versions"].get(_short(version), {})
    if "modules" not in facts:
        return None
    return ImageModules(facts["python"], frozenset(facts["modules"]))


def _fact(version: str, name: str) -> str | None:
    found: str | None = table("image_facts")["versions"].get(_short(version), {}).get(name)
    return found


def _short(version: str) -> str:
    return ".".join(version.split(".")[:2])
