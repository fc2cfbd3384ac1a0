"""Options of a request, for an endpoint or for one call.

They select the variant, model, version and signature, the format, and the timeout.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from servable_client.errors import BadInputError
from servable_client.formats import find_content_type
from servable_tensors.trace_context import MOST_ATTRIBUTES

# SageMaker responds within 60 s or not at all; the rest is for the network and for a retry.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html
TIMEOUT_SECONDS = 65.0


def check_header(name: str, text: str | None) -> None:
    """Raise `BadInputError` for text that cannot be sent in a header."""
    if text and not (text.isascii() and text.isprintable()):
        problem = f"{name} {text!r} must be printable ASCII on one line: it is sent in a header"
        raise BadInputError(problem)


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The selected variant, model, version and signature; None is the endpoint's default.

    Raises `BadInputError` for a value that cannot be sent in a header.
    """

    variant: str | None = None
    """A production variant of the endpoint; one by weight otherwise."""
    model: str | None = None
    version: int | None = None
    signature: str | None = None
    target_model: str | None = None
    """The archive's key, on a multi-model endpoint."""
    component: str | None = None
    """The inference component, on an endpoint that has them: each request must name one."""
    custom_attributes: str = field(init=False, repr=False, compare=False)
    """The header that the container's NGINX and the handler read; empty if nothing is selected.

    Source: https://github.com/aws/sagemaker-tensorflow-serving-container (README)
    """

    def __post_init__(self) -> None:
        if self.version is not None and (type(self.version) is not int or self.version < 0):
            raise BadInputError(f"version {self.version!r} isn't a whole number such as 7")
        for name in ("model", "signature"):
            text = getattr(self, name) or ""
            if "," in text or not text.isascii() or not (text or "x").isprintable():
                problem = f"{name} {text!r} must be ASCII without commas: it is sent in a header"
                raise BadInputError(problem)
        for name in ("variant", "target_model", "component"):
            check_header(name, getattr(self, name))
        attributes = {
            "tfs-model-name": self.model,
            "tfs-model-version": self.version,
            "tfs-signature-name": self.signature,
        }
        given = {key: value for key, value in attributes.items() if value is not None}
        header = ",".join(f"{key}={value}" for key, value in given.items())
        if len(header) > MOST_ATTRIBUTES:
            raise BadInputError(f"model and signature together exceed {MOST_ATTRIBUTES} characters")
        # Not a cached_property, whose lock a forked child may inherit held (Python 3.11).
        object.__setattr__(self, "custom_attributes", header)


@dataclass(frozen=True, kw_only=True)
class Options(Selection):
    """Options of a request: the selection, the format, and the timeout."""

    format: str | None = None
    """Format of the request's body; None: chosen by size and types."""
    timeout_seconds: float = TIMEOUT_SECONDS
    """Seconds from the call to the response, including every attempt and the waits between them."""
    retry_unsafe: bool = False
    """Also retry a request that may have been executed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.format is not None:
            find_content_type(self.format)
        if not self.timeout_seconds > 0:
            raise BadInputError(f"timeout_seconds {self.timeout_seconds!r} must be more than 0")

    def apply_changes(self, **changes: Any) -> "Options":
        """Return a copy with the changes that aren't None. Raises TypeError for an unknown name."""
        options = {name: value for name, value in changes.items() if value is not None}
        return replace(self, **options) if options else self
