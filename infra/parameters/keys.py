"""Look up the keys of an environment file, and turn pydantic's errors about their values into findings."""

import ast
import functools
import inspect
import itertools
import types
import typing
from pathlib import PurePosixPath
from typing import Annotated, Any, Union

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, build_file_error, find_nearest, suggest_name
from infra.parameters.sources import Source
from infra.parameters.spellings import find_new_name


def unwrap_type(annotation: Any) -> Any:
    """Return the type without Annotated and without `| None`."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return unwrap_type(typing.get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        inside = [
            argument for argument in typing.get_args(annotation) if argument is not type(None)
        ]
        return unwrap_type(inside[0]) if len(inside) == 1 else annotation
    return annotation


def find_type(key: tuple[str, ...]) -> Any:
    """Return the type that `key` takes in an environment file, or None for an unknown key."""
    here: Any = Environment
    for name in key:
        if isinstance(here, type) and issubclass(here, BaseModel):
            field = here.model_fields.get(name)
            if field is None:
                return None
            here = unwrap_type(field.annotation)
        elif typing.get_origin(here) is dict:
            here = unwrap_type(typing.get_args(here)[1])
        else:
            return None
    return here


def find_field(key: tuple[str, ...]) -> FieldInfo | None:
    """Return the field that `key` names, or None for an unknown key."""
    table = find_type(key[:-1])
    if isinstance(table, type) and issubclass(table, BaseModel):
        return table.model_fields.get(key[-1])
    return None


def read_meaning(table: type[BaseModel], name: str) -> str:
    """Return the docstring of a field on one line, or "" if it has none.

    It is read from the source only when a reference, a schema, or a message needs it. Pydantic's
    own `use_attribute_docstrings` would read it at every start.
    """
    return _read_meanings(table).get(name, "")


@functools.cache
def _read_meanings(table: type[BaseModel]) -> dict[str, str]:
    body = ast.parse(inspect.getsource(table)).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: " ".join(docstring.value.value.split())
        for field, docstring in itertools.pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(docstring, ast.Expr)
        and isinstance(docstring.value, ast.Constant)
        and isinstance(docstring.value.value, str)
    }


def find_meaning(key: tuple[str, ...]) -> str:
    """Return the docstring of the field that `key` names, or "" for an unknown key."""
    table = find_type(key[:-1])
    is_table = isinstance(table, type) and issubclass(table, BaseModel)
    return read_meaning(table, key[-1]) if is_table else ""


def list_keys(key: tuple[str, ...]) -> list[str]:
    """Return the keys that the table at `key` may have, or [] if the file chooses the names."""
    table = find_type(key)
    if isinstance(table, type) and issubclass(table, BaseModel):
        return sorted(table.model_fields)
    return []


_TYPES = {
    "string_type": "a string",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "finite_number": "a finite number",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_BOUNDS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
}
_ENDS = {
    "gt": "greater_than",
    "ge": "greater_than_equal",
    "lt": "less_than",
    "le": "less_than_equal",
}
# What a pattern requires, and a value that it takes, by a part of the pattern.
FORMS = {
    ":(key|alias)/": ("a key's id, alias, or ARN", "alias/ranker"),
    ":kms:": (
        "a key's ARN, not an alias",
        "arn:aws:kms:eu-west-1:111111111111:key/0a1b2c3d-0000-0000-0000-000000000001",
    ),
    ":role/": ("a role's ARN", "arn:aws:iam::111111111111:role/serving"),
    ":policy/": ("a policy's ARN", "arn:aws:iam::111111111111:policy/boundary"),
    ":model-package/": ("GROUP/VERSION, or a model package's ARN", "ranker/3"),
    "^subnet-": ("a subnet's id", "subnet-0a1b2c3d4e5f60718"),
    "^sg-": ("a security group's id", "sg-0a1b2c3d4e5f60718"),
    "^/(": ("a path that begins and ends with a slash", "/service/ranker/"),
    "@": ("an e-mail address or an https address", "team@example.com"),
    "^(cron": (
        "cron(six fields), rate(number unit), or at(yyyy-mm-ddThh:mm:ss)",
        "cron(0 7 ? * MON-FRI *)",
    ),
    r"tar\.gz": ("s3://BUCKET/KEY.tar.gz", "s3://models/run-17/model.tar.gz"),
    "([^*?$]+/)?$": (
        "s3://BUCKET/ or s3://BUCKET/PREFIX/, with a slash at its end and without *, ? and $",
        "s3://models/dumps/",
    ),
    "[^*?$]*$": ("s3://BUCKET/PREFIX, without *, ? and $", "s3://tables/rows/"),
    r"^\$": ("a JSONPath, which begins with $", "$.features"),
    "{64}": ("64 hexadecimal digits", "0123456789abcdef" * 4),
    "{2}(-": ("a date, yyyy-mm or yyyy-mm-dd", "2026-11-29"),
    "^[0-9]{12}": ("12 digits in quotes", "111111111111"),
    "{2,4}(-": ("a Region's name", "eu-west-1"),
    "^[a-zA-Z][": ("1 to 63 letters, digits and hyphens, a letter first", "ranker"),
    "(-*[": (
        "1 to 63 letters, digits and hyphens, with a letter or digit at both ends",
        "ranker-prod",
    ),
    "x20-": ("printable ASCII characters", "application/json"),
    r"[^/\s": ("a folder's name without slashes and spaces", "ranker"),
    "^ml": ("an instance type", "ml.c5.xlarge"),
    "^[a-zA-Z_]": ("letters, digits and _, not beginning with a digit", "TABLE_NAME"),
    r"\-a-zA-Z0-9]*": (
        "1 to 63 letters, digits and hyphens, with a letter or digit at both ends",
        "ranker-2",
    ),
}


def describe_pattern(pattern: str) -> str:
    """Describe what a pattern requires, with an example. Return "" for an unknown pattern."""
    for part, (form, example) in FORMS.items():
        if part in pattern:
            return f"{form}, for example {example}"
    return ""


def convert_error(error: ErrorDetails, source: Source, file: str) -> Finding:
    """Convert a pydantic error to a finding in the file that the value came from."""
    key = tuple(str(part) for part in error["loc"] if part != "[key]")
    problem, allowed, remedy = _words(error, key, PurePosixPath(file).stem)
    missing = error["type"] == "missing"
    return build_file_error(
        file if missing else source.find_origin(key, file),
        ".".join(key),
        problem,
        remedy,
        given=None if missing else error["input"],
        allowed=allowed,
    )


def _words(error: ErrorDetails, key: tuple[str, ...], name: str) -> tuple[str, str, str]:
    kind, given = error["type"], error["input"]
    if error["loc"][-1:] == ("[key]",):
        context = error["ctx"]
        form = (
            _BOUNDS[kind].format(**context)
            if kind in _BOUNDS
            else describe_pattern(context["pattern"])
        )
        return f"{key[-1]!r} is not a valid name", form, "rename it"
    if kind == "missing":
        if key[0] == "models" and key[2:-1] == ("artifact",):
            return (
                "missing",
                _summarize_key(key),
                f"add {_describe_line(key)}, or `servable pin {name}` writes it",
            )
        return "missing", _summarize_key(key), f"add {_describe_line(key)}"
    if kind == "extra_forbidden":
        if now := find_new_name(key):
            return f"{'.'.join(key)} was renamed", now, f"write {now}"
        keys = list_keys(key[:-1])
        close = find_nearest(key[-1], keys)
        remedy = f"did you mean {close}?" if close else "remove it"
        return f"unknown key {key[-1]!r}", ", ".join(keys), remedy
    if key[-2:] == ("container", "batching") and isinstance(given, str):
        return f"{_format_value(given)} is not true or false", "true, false", "use one of those"
    if kind in _TYPES:
        allowed = ", ".join(part for part in (_TYPES[kind], _describe_bounds(key)) if part)
        return (
            f"{_format_value(given)} is not {_TYPES[kind]}",
            allowed,
            _suggest_spelling(kind, given),
        )
    if kind in _BOUNDS:
        allowed = _describe_bounds(key) or _BOUNDS[kind].format(**error["ctx"])
        return (
            f"{_format_value(given)} is out of range",
            allowed,
            _nearest_bound(kind, error["ctx"]),
        )
    if kind == "literal_error":
        field = find_field(key)
        literals = typing.get_args(unwrap_type(field.annotation)) if field else ()
        known = [str(literal) for literal in literals]
        return (
            f"{_format_value(given)} is not known",
            ", ".join(known),
            suggest_name(str(given), known),
        )
    if kind == "string_pattern_mismatch":
        allowed = describe_pattern(error["ctx"]["pattern"]) or _summarize_key(key)
        return (
            f"{_format_value(given)} does not have the required form",
            allowed,
            "write it in that form",
        )
    return error["msg"], _summarize_key(key), "change it"


def _describe_bounds(key: tuple[str, ...]) -> str:
    """Describe both bounds of a number's range, whichever was crossed."""
    field = find_field(key)
    if field is None:
        return ""
    annotations = [*field.metadata]
    for part in typing.get_args(field.annotation):
        annotations += getattr(part, "__metadata__", ())
    limits = {
        end: getattr(inner, end)
        for annotation in annotations
        for inner in getattr(annotation, "metadata", [annotation])
        for end in _ENDS
        if getattr(inner, end, None) is not None
    }
    return " and ".join(_BOUNDS[_ENDS[end]].format(**limits) for end in limits)


def _nearest_bound(kind: str, context: dict[str, Any]) -> str:
    """Return the remedy for a number that is out of its range: the bound, if the range includes it."""
    bound = {"greater_than_equal": "ge", "less_than_equal": "le"}.get(kind)
    return f"set {context[bound]:.12g}, the nearest" if bound else "change it"


def _summarize_key(key: tuple[str, ...]) -> str:
    """Return the first sentence of the field's docstring, without its full stop."""
    return find_meaning(key).split(". ")[0].rstrip(".")


def _suggest_spelling(kind: str, given: Any) -> str:
    """Return a remedy that shows how to write the value that was probably meant."""
    if kind == "string_type" and isinstance(given, int) and not isinstance(given, bool):
        return f'put it in quotes: "{given}"'
    if kind == "bool_type" and given in ("true", "false"):
        return f"leave out the quotes: {given}"
    if kind == "list_type" and isinstance(given, str):
        return f'put it in brackets: ["{given}"]'
    if kind in ("int_type", "float_type") and isinstance(given, str) and given.isdecimal():
        return f"leave out the quotes: {given}"
    return "change it"


def _format_value(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 60 else text[:57] + "..."


def _describe_line(key: tuple[str, ...]) -> str:
    if key in (("models",), ("variants",)):
        return f"a table [{key[0]}.NAME]"
    if key == ("endpoint",):
        return 'a table [endpoint] with name = "…"'
    table = ".".join(key[:-1])
    return f"{key[-1]} = … to [{table}]" if table else f"{key[-1]} = … at the top of the file"
