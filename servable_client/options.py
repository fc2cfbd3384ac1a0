"""What may be said of a request beside its inputs: once for an endpoint, or call by call."""

from dataclasses import dataclass, field, replace
from typing import Any

from servable_client.errors import BadInputError
from servable_client.formats import content_type
from servable_client.selection import Selection

# SageMaker answers within 60 s or not at all; the rest is for the way and for another attempt.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html
TIMEOUT_SECONDS = 65.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """Raises `BadInputError` for what cannot be."""

    format: str | None = None
    """Of the request's body; chosen by size and types where it is None."""
    timeout_seconds: float = TIMEOUT_SECONDS
    """From the call to the answer, every attempt and the waits between them included."""
    retry_unsafe: bool = False
    """Repeat also what may have been executed: where twice does no harm."""
    selection: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        if self.format is not None:
            content_type(self.format)
        if not self.timeout_seconds > 0:
            raise BadInputError(f"timeout_seconds {self.timeout_seconds!r}: give more than 0")

    def with_(
        self,
        *,
        format: str | None = None,
        timeout_seconds: float | None = None,
        retry_unsafe: bool | None = None,
        variant: str | None = None,
        model: str | None = None,
        version: int | None = None,
        signature: str | None = None,
        target_model: str | None = None,
    ) -> "Options":
        """These, but for what is given; None is what they say."""
        selected: dict[str, Any] = {
            "variant": variant,
            "model": model,
            "version": version,
            "signature": signature,
            "target_model": target_model,
        }
        said: dict[str, Any] = {
            "format": format,
            "timeout_seconds": timeout_seconds,
            "retry_unsafe": retry_unsafe,
        }
        if changed := {name: value for name, value in selected.items() if value is not None}:
            said["selection"] = replace(self.selection, **changed)
        return replace(self, **{name: value for name, value in said.items() if value is not None})
