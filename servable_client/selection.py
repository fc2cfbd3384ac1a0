"""Who is to answer: a variant, a model, a version, a signature."""

from dataclasses import dataclass, field

from servable_client.errors import BadInputError

# SageMaker's own bound on the header that carries the last three.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html
MOST_ATTRIBUTES = 1024


@dataclass(frozen=True, kw_only=True)
class Selection:
    """None is the endpoint's default. Raises `BadInputError` for what no header can carry."""

    variant: str | None = None
    """A production variant of the endpoint; one by weight otherwise."""
    model: str | None = None
    version: int | None = None
    signature: str | None = None
    target_model: str | None = None
    """The archive's key, on a multi-model endpoint."""
    custom_attributes: str = field(init=False, repr=False, compare=False)
    """What the container's front and the handler read; empty for nothing chosen.

    Source: https://github.com/aws/sagemaker-tensorflow-serving-container (README)
    """

    def __post_init__(self) -> None:
        if self.version is not None and (type(self.version) is not int or self.version < 0):
            raise BadInputError(f"version {self.version!r}: give a whole number, as 7")
        for name in ("model", "signature"):
            text = getattr(self, name) or ""
            if "," in text or not text.isascii() or not (text or "x").isprintable():
                raise BadInputError(
                    f"{name} {text!r}: no comma, ASCII only: it is sent in a header"
                )
        for name in ("variant", "target_model"):
            text = getattr(self, name) or ""
            if not text.isascii() or not (text or "x").isprintable():
                raise BadInputError(
                    f"{name} {text!r}: ASCII on one line only: it is sent in a header"
                )
        # Not a cached_property, whose lock a forked child may inherit held (Python 3.11).
        object.__setattr__(self, "custom_attributes", self._attributes())
        if len(self.custom_attributes) > MOST_ATTRIBUTES:
            raise BadInputError(f"model and signature take more than {MOST_ATTRIBUTES} characters")

    def _attributes(self) -> str:
        said = {
            "tfs-model-name": self.model,
            "tfs-model-version": self.version,
            "tfs-signature-name": self.signature,
        }
        return ",".join(f"{key}={value}" for key, value in said.items() if value is not None)
