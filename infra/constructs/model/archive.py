"""Where a model's bytes lie, however they got there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class Prefix:
    """What a role may list, beside reading the objects under it."""

    bucket_arn: str
    name: str
    """Ends with a slash."""


class Archive(Protocol):
    """One archive, one prefix of files, or one prefix of archives."""

    @property
    def data(self) -> Mapping[str, Any]:
        """How SageMaker's container definition names it."""

    @property
    def url(self) -> str:
        """s3://…; a prefix's ends with a slash."""

    @property
    def objects(self) -> str:
        """The ARN of the objects to read; a prefix's ends with a star."""

    @property
    def listed(self) -> Prefix | None:
        """None where it is one object."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 over what decides the bytes, or over the bytes."""

    @property
    def variables(self) -> Mapping[str, str]:
        """What the model's environment says of it, beside the container's settings."""
