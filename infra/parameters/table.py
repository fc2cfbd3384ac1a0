"""The base class of the tables of an environment file, and the types that several tables use."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.config import JsonDict
from pydantic_core import CoreSchema, core_schema

from infra.catalog.limits import find_maximum, find_minimum


class Table(BaseModel):
    """A frozen model that rejects unknown keys and converts no types: "12" isn't 12."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    format_error: ClassVar[Callable[[ValidationError, type], str] | None] = None
    """Describes the errors of a call in an app; `infra.arguments` sets it."""

    def __init__(self, /, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as wrong:
            if Table.format_error is None:
                raise
            raise ValueError(Table.format_error(wrong, type(self))) from None

    # pydantic then doesn't call it for the tables of a file.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


def _accept_token(value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Return the validated value, or a CDK token, which only CloudFormation can resolve.

    A token matches no pattern. An environment file has no tokens: it is validated with the
    project as its context.
    """
    if info.context is None and isinstance(value, str) and "{Token[" in value:
        return value
    return validate(value)


OR_TOKEN = WrapValidator(_accept_token)
UNIQUE: JsonDict = {"uniqueItems": True}
"""The further schema of a list that has each item once."""


def build_range(shape: str) -> Any:
    """Build the field of a number in the range that SageMaker states for a shape."""
    return Field(ge=find_minimum(shape), le=find_maximum(shape))


# The names become construct ids, names in SageMaker and folder names in the archive:
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9]([\-a-zA-Z0-9]*[a-zA-Z0-9])?$", max_length=63)]

# An ARN and not an alias: policies name the key itself, and an alias may move to another key.
# https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html#key-id-key-ARN
KmsKeyArn = Annotated[
    str,
    Field(pattern=r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[a-zA-Z0-9-]+$", max_length=2048),
    OR_TOKEN,
]


class ProjectPath(str):
    """A path in an environment file, relative to the project."""

    path: Path
    """The file or folder in the project, which is `project` of the validation's context; without a context
    in the working folder."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> CoreSchema:
        written = core_schema.str_schema(min_length=1)
        return core_schema.with_info_after_validator_function(cls._resolve, written)

    @classmethod
    def _resolve(cls, written: str, info: ValidationInfo) -> "ProjectPath":
        path = cls(written)
        path.path = Path((info.context or {}).get("project", "")) / written
        return path


RoleArn = Annotated[
    str, Field(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[a-zA-Z0-9+=,.@_/-]{1,576}$"), OR_TOKEN
]
