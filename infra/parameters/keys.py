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
from pydantic_core import ErrorDetails

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, build_file_error, find_nearest, suggest_name
from infra.parameters.sources import Source
from infra.parameters.spellings import find_new_name


def unwrap_type(annotation: Any) -> Any:
    """Return the type without Annotated and without `| None`."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return unwrap_type(inside[0])
    if origin in (Union, types.UnionType):
        others = [argument for argument in inside if argument is not type(None)]
        return unwrap_type(others[0]) if len(others) == 1 else annotation
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


def _find_table(key: tuple[str, ...]) -> type[BaseModel] | None:
    """Return the table with fixed keys that `key` names, or None."""
    table = find_type(key)
    return table if isinstance(table, type) and issubclass(table, BaseModel) else None


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


def list_keys(key: tuple[str, ...]) -> list[str]:
    """Return the keys that the table at `key` may have, or [] if the file chooses the names."""
    table = _find_table(key)
    return sorted(table.model_fields) if table else []


_TYPES = {
    "string_type": "a string", "int_type": "a whole number", "int_from_float": "a whole number",
    "float_type": "a number", "bool_type": "true or false", "finite_number": "a finite number",
    "list_type": "a list", "dict_type": "a table", "model_type": "a table",
    "model_attributes_type": "a table",
}  # fmt: skip
# Pydantic's error -> the bound in its context, and its description.
_BOUNDS = {
    "greater_than": ("gt", "more than {}"),
    "greater_than_equal": ("ge", "{} or more"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "{} or less"),
    "string_too_short": ("min_length", "at least {} characters"),
    "string_too_long": ("max_length", "at most {} characters"),
}
# What a pattern requires, and a value that it takes, by a part of the pattern.
FORMS = {
    ":(key|alias)/": ("a key's id, alias, or ARN", "alias/ranker"),
    ":kms:": ("a key's ARN, not an alias",
              "arn:aws:kms:eu-west-1:111111111111:key/0a1b2c3d-0000-0000-0000-000000000001"),
    ":role/": ("a role's ARN", "arn:aws:iam::111111111111:role/serving"),
    ":policy/": ("a policy's ARN", "arn:aws:iam::111111111111:policy/boundary"),
    ":model-package/": ("GROUP/VERSION, or a model package's ARN", "ranker/3"),
    "^subnet-": ("a subnet's id", "subnet-0a1b2c3d4e5f60718"),
    "^sg-": ("a security group's id", "sg-0a1b2c3d4e5f60718"),
    "^/(": ("a path that begins and ends with a slash", "/service/ranker/"),
    "@": ("an e-mail address or an https address", "team@example.com"),
    "^(cron": ("cron(six fields), rate(number unit), or at(yyyy-mm-ddThh:mm:ss)",
               "cron(0 7 ? * MON-FRI *)"),
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
    "(-*[": ("1 to 63 letters, digits and hyphens, with a letter or digit at both ends",
             "ranker-prod"),
    "x20-": ("printable ASCII characters", "application/json"),
    r"[^/\s": ("a folder's name without slashes and spaces", "ranker"),
    "^ml": ("an instance type", "ml.c5.xlarge"),
    "^[a-zA-Z_]": ("letters, digits and _, not beginning with a digit", "TABLE_NAME"),
    r"\-a-zA-Z0-9]*": ("1 to 63 letters, digits and hyphens, with a letter or digit at both ends",
                       "ranker-2"),
}  # fmt: skip


def describe_pattern(pattern: str) -> str:
    """Describe what a pattern requires, with an example. Return "" for an unknown pattern."""
    known = (row for part, row in FORMS.items() if part in pattern)
    return next((f"{form}, for example {example}" for form, example in known), "")


def convert_error(error: ErrorDetails, source: Source, file: str) -> Finding:
    """Convert a pydantic error to a finding in the file that the value came from."""
    key = tuple(str(part) for part in error["loc"] if part != "[key]")
    problem, allowed, remedy = _explain_error(error, key, PurePosixPath(file).stem)
    missing = error["type"] == "missing"
    return build_file_error(
        file if missing else source.find_origin(key, file),
        ".".join(key),
        problem,
        remedy,
        given=None if missing else error["input"],
        allowed=allowed,
    )


def _explain_error(error: ErrorDetails, key: tuple[str, ...], name: str) -> tuple[str, str, str]:
    """Return the problem, the allowed values, and the remedy of an error in the environment `name`."""
    kind, given, shown = error["type"], error["input"], repr(error["input"])
    end, bound = _BOUNDS.get(kind, ("", ""))
    limit = error["ctx"][end] if end else None
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    if error["loc"][-1:] == ("[key]",):
        form = bound.format(limit) or describe_pattern(error["ctx"]["pattern"])
        return f"{key[-1]!r} is not a valid name", form, "rename it"
    if kind == "missing":
        is_artifact = key[0] == "models" and key[2:-1] == ("artifact",)
        pin = f", or run `servable pin {name}`" if is_artifact else ""
        return "missing", _summarize_key(key), f"add {_describe_line(key)}{pin}"
    if kind == "extra_forbidden":
        if now := find_new_name(key):
            return f"{'.'.join(key)} was renamed", now, f"write {now}"
        keys = list_keys(key[:-1])
        close = find_nearest(key[-1], keys)
        remedy = f"did you mean {close}?" if close else "remove it"
        return f"unknown key {key[-1]!r}", ", ".join(keys), remedy
    if key[-2:] == ("container", "batching") and isinstance(given, str):
        return f"{shown} is not true or false", "true, false", "use one of these"
    if kind in _TYPES:
        allowed = ", ".join(part for part in (_TYPES[kind], _describe_bounds(key)) if part)
        return f"{shown} is not {_TYPES[kind]}", allowed, _suggest_spelling(kind, given)
    if bound:
        allowed = _describe_bounds(key) or bound.format(limit)
        remedy = f"set {limit:.12g}, the nearest" if end in ("ge", "le") else "change it"
        return f"{shown} is out of range", allowed, remedy
    if kind == "literal_error":
        literals = typing.get_args(find_type(key))
        known = [str(literal) for literal in literals]
        return f"{shown} is not known", ", ".join(known), suggest_name(str(given), known)
    if kind == "string_pattern_mismatch":
        allowed = describe_pattern(error["ctx"]["pattern"]) or _summarize_key(key)
        return f"{shown} does not have the required format", allowed, "write it in that format"
    return error["msg"], _summarize_key(key), "change it"


def _describe_bounds(key: tuple[str, ...]) -> str:
    """Describe both bounds of a number's range, whichever was crossed."""
    table = _find_table(key[:-1])
    field = table.model_fields.get(key[-1]) if table else None
    if field is None:
        return ""
    annotations = [*field.metadata]
    for part in typing.get_args(field.annotation):
        annotations += getattr(part, "__metadata__", ())
    limits = {
        end: getattr(inner, end)
        for annotation in annotations
        for inner in getattr(annotation, "metadata", [annotation])
        for end in ("gt", "ge", "lt", "le")
        if getattr(inner, end, None) is not None
    }
    return " and ".join(text.format(limits[end]) for end, text in _BOUNDS.values() if end in limits)


def _summarize_key(key: tuple[str, ...]) -> str:
    """Return the first sentence of the field's docstring, without its full stop."""
    table = _find_table(key[:-1])
    meaning = read_meaning(table, key[-1]) if table else ""
    return meaning.split(". ")[0].rstrip(".")


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


def _describe_line(key: tuple[str, ...]) -> str:
    if key in (("models",), ("variants",)):
        return f"a table [{key[0]}.NAME]"
    if key == ("endpoint",):
        return 'a table [endpoint] with name = "…"'
    table = ".".join(key[:-1])
    return f"{key[-1]} = … to [{table}]" if table else f"{key[-1]} = … at the top of the file"
