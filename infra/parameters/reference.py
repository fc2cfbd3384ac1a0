"""Writes the reference of environment files: JSON Schema for editors and Markdown for readers."""

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
from infra.parameters.keys import read_meaning, unwrap_type
from infra.parameters.table import ProjectPath
from infra.policy.container import KEYLESS, SETTINGS, Batching, ContainerSettings, find_variable

_EXTENDS = (
    "Name of another file of this folder that this one changes. Only tables merge, key by key."
)
_HEAD = """\
# Every key of an environment file

Generated from the models in infra/parameters by `python scripts/generate.py`; do not edit.

Look up every key of an environment file. An environment is a file
in environments/: it extends a base (`extends = "base"`) and sets what differs. The main lines of a prod.toml:

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

An editor that reads JSON Schema completes and checks the keys as you type. A file with an error stops only
its own stacks: `cdk synth` without a selector exits with 1 and prints every error, as `cdk synth 'staging/*'`
does for that file; `cdk synth 'prod/*'` and `cdk deploy 'prod/*'` still work. `cdk list` prints the errors of
a rejected file and shows its stack `refused_staging`, which is otherwise empty. Warnings change no exit code.

Any key can be overridden for one run: `cdk deploy 'prod/*' -c prod.variants.primary.max_instances=12`, or
`servable check prod --set prod.variants.primary.max_instances=12`. The value is read as TOML, or as
a string if the key takes a string; an empty value removes the key. `-c prod.acknowledge.RULE=` takes out
one acknowledgement. A tag, a rule, or an instance type in the key needs no quotes, and may have them:
`-c prod.tags.acme:owner=me`. The context of cdk.json takes overrides too, also as numbers and tables;
`servable` reads them like `cdk`. An override that sets nothing is an error. The template's metadata and an
output list the overrides.

## Top of the file

| key | type | default | meaning |
|---|---|---|---|
| `extends` | string | none | """


def build_json_schema() -> str:
    """Return the JSON Schema for editors. It requires no key, because a base may contain it."""
    schema = Environment.model_json_schema(schema_generator=_WithMeanings)
    schema["$schema"] = "http://json-schema.org/draft-07/schema#"
    schema["title"] = "A Servable environment file"
    schema["properties"] = {
        "extends": {"type": "string", "description": _EXTENDS},
        **schema["properties"],
    }
    return json.dumps(schema, indent=1) + "\n"


class _WithMeanings(GenerateJsonSchema):
    """Adds each key's docstring to the schema as its description, and requires no key."""

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        described = super().model_schema(schema)
        described.pop("required", None)
        for name, field in described["properties"].items():
            variable = _find_variable(schema["cls"], name)
            is_variable = f" The container environment variable is {variable}." if variable else ""
            field["description"] = _describe_key(schema["cls"], name) + is_variable
            if name == "environment":
                field["properties"] = _build_variable_properties()
        return described


def _build_variable_properties() -> dict[str, Any]:
    """Return the schema properties of [environment] that an editor completes."""
    keys = {variable: f"The key container.{setting}." for variable, setting in SETTINGS.items()}
    keys |= dict.fromkeys(KEYLESS, "Read by old images only. It has no key.")
    return {name: {"type": "string", "description": text} for name, text in sorted(keys.items())}


def _find_variable(table: type[BaseModel], name: str) -> str | None:
    """Return the container environment variable of a key, or None for keys of other tables."""
    if table is ContainerSettings:
        return find_variable(name)
    return find_variable(f"batching.{name}") if table is Batching else None


def _describe_key(table: type[BaseModel], name: str) -> str:
    text = read_meaning(table, name)
    if name == "environment":
        text += f" {' and '.join(KEYLESS)}, which only old images read, have no key."
    return text


def render_markdown() -> str:
    """Return the text of docs/reference/parameters.md, with a table of keys for each table."""
    lines = [f"{_HEAD}{_EXTENDS} |"]
    lines += list(_render_rows(Environment))
    for title, table in _find_tables(Environment, ""):
        lines += ["", f"## [{title}]", ""]
        if table.__doc__:
            lines += [inspect.cleandoc(table.__doc__), ""]
        key = "| key | container environment variable |"
        head = key if table in (ContainerSettings, Batching) else "| key |"
        lines += [f"{head} type | default | meaning |", "|---" * (head.count("|") + 2) + "|"]
        lines += list(_render_rows(table))
    return "\n".join(lines) + "\n"


def _render_rows(table: type[BaseModel]) -> Iterator[str]:
    for key, field in table.model_fields.items():
        variable = f" `{name}` |" if (name := _find_variable(table, key)) else ""
        yield (
            f"| `{key}` |{variable} {_describe_type(field)} | {_format_default(field)} | "
            f"{_describe_key(table, key)} |"
        )


def _find_tables(table: type[BaseModel], at: str) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in table.model_fields.items():
        inner: Any = unwrap_type(field.annotation)
        title = f"{at}{name}"
        if typing.get_origin(inner) is dict:
            inner = unwrap_type(typing.get_args(inner)[1])
            title = f"{title}.NAME"
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield title, inner
            yield from _find_tables(inner, f"{title}.")


def _describe_type(field: FieldInfo) -> str:
    kind: Any = unwrap_type(field.annotation)
    if typing.get_origin(kind) is typing.Literal:
        return " or ".join(f"`{argument}`" for argument in typing.get_args(kind))
    origin = str if kind is ProjectPath else typing.get_origin(kind) or kind
    if isinstance(origin, type) and issubclass(origin, BaseModel):
        return "table"
    names = {str: "string", int: "whole number", float: "number", bool: "true or false"}
    return names.get(origin, "table" if origin is dict else "list")


def _format_default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    if field.default is None or isinstance(field.default, BaseModel):
        return "none"
    return f"`{json.dumps(field.default)}`"
