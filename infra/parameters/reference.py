"""The shape of an environment file, for editors (JSON Schema) and for readers (Markdown)."""

import inspect
import json
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticUndefined
from pydantic_core.core_schema import ModelSchema

from infra.parameters.environment import Environment
from infra.parameters.shape import bare, meaning

_EXTENDS = "Another file of this folder that this one changes. Tables merge key by key; nothing else merges."
_HEAD = """\
# Every key of an environment file

Generated from the models in infra/parameters by `python scripts/generate.py`; do not edit.

An environment is a file in environments/: it says `extends = "base"` and changes what differs. Main lines of
a prod.toml:

    extends = "base"
    account = "333333333333"

    [endpoint]
    name = "ranker-prod"

    [variants.primary]
    instance_type = "ml.c5.4xlarge"
    min_instances = 2
    max_instances = 12

    [variants.primary.scaling]
    max_rps_per_instance = 164

An editor that reads JSON Schema completes and checks the keys as you type. A file with a problem stops its
own stacks and no others: `cdk synth` without a selector exits with 1 and says everything that is wrong, as
`cdk synth 'staging/*'` does for that file; `cdk synth 'prod/*'` and `cdk deploy 'prod/*'` go ahead beside it.
`cdk list` shows a refused file's errors and its stack `refused_staging`, which holds nothing but them.
Warnings change no exit code.

Any key can be given for one run: `cdk deploy 'prod/*' -c prod.variants.primary.max_instances=12`, or
`servable check prod --set prod.variants.primary.max_instances=12`; the value is read as TOML, and as
a string where a string belongs. The template's metadata and an output say which were given.

## Top of the file

| key | type | default | meaning |
|---|---|---|---|
| `extends` | string | none | """


def json_schema() -> str:
    """What editors complete and check against. Nothing is required: a base may hold it."""
    schema = _without_required(Environment.model_json_schema(schema_generator=_WithMeanings))
    schema["$schema"] = "http://json-schema.org/draft-07/schema#"
    schema["title"] = "A Servable environment file"
    schema["properties"] = {
        "extends": {"type": "string", "description": _EXTENDS},
        **schema["properties"],
    }
    return json.dumps(schema, indent=1) + "\n"


class _WithMeanings(GenerateJsonSchema):
    """Each key with its docstring."""

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        found = super().model_schema(schema)
        for name, field in found["properties"].items():
            field["description"] = meaning(schema["cls"], name)
        return found


def _without_required(part: Any) -> Any:
    if isinstance(part, dict):
        return {
            name: _without_required(value)
            for name, value in part.items()
            if name != "required" or not isinstance(value, list)
        }
    return [_without_required(one) for one in part] if isinstance(part, list) else part


def markdown() -> str:
    """docs/parameters.md: one table of keys per table of the file."""
    lines = [f"{_HEAD}{_EXTENDS} |"]
    lines += list(_rows(Environment))
    for title, table in _tables(Environment, ""):
        lines += ["", f"## [{title}]", ""]
        if table.__doc__:
            lines += [inspect.cleandoc(table.__doc__), ""]
        lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        lines += list(_rows(table))
    return "\n".join(lines) + "\n"


def _rows(table: type[BaseModel]) -> Iterator[str]:
    for name, field in table.model_fields.items():
        yield f"| `{name}` | {_type(field)} | {_default(field)} | {meaning(table, name)} |"


def _tables(table: type[BaseModel], at: str) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in table.model_fields.items():
        inner: Any = bare(field.annotation)
        title = f"{at}{name}"
        if typing.get_origin(inner) is dict:
            inner = bare(typing.get_args(inner)[1])
            title = f"{title}.NAME"
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield title, inner
            yield from _tables(inner, f"{title}.")


def _type(field: FieldInfo) -> str:
    kind: Any = bare(field.annotation)
    if typing.get_origin(kind) is typing.Literal:
        return " or ".join(f"`{one}`" for one in typing.get_args(kind))
    origin = typing.get_origin(kind) or kind
    if isinstance(origin, type) and issubclass(origin, BaseModel):
        return "table"
    names = {str: "string", int: "whole number", float: "number", bool: "true or false"}
    return names.get(origin, "table" if origin is dict else "list")


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    if field.default is None or isinstance(field.default, BaseModel):
        return "left out"
    return f"`{json.dumps(field.default)}`"
