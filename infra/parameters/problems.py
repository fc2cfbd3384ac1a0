"""Turns pydantic errors into findings: the value given, what is allowed, what to do."""

import typing
from typing import Any

from pydantic_core import ErrorDetails

from infra.parameters.finding import Finding, file_error, nearest
from infra.parameters.renamed_keys import renamed
from infra.parameters.shape import bare, field_at, keys_at, meaning_at
from infra.parameters.sources import Source

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
# Examples of valid values, by a part of the pattern that a value does not match.
_FORMS = {
    ":kms:": "arn:aws:kms:eu-west-1:111111111111:key/0a1b2c3d-0000-0000-0000-000000000001",
    ":role/": "arn:aws:iam::111111111111:role/serving",
    ":policy/": "arn:aws:iam::111111111111:policy/boundary",
    "^subnet-": "subnet-0a1b2c3d4e5f60718",
    "^sg-": "sg-0a1b2c3d4e5f60718",
    "^/(": "/service/ranker/",
    "@": "team@example.com, or https://example.com/hook",
    "^(cron": "cron(0 7 ? * MON-FRI *), rate(1 day) or at(2026-12-24T18:00:00)",
}
_NAMES = {
    "tags": "1 to 128 characters",
    "variables": "letters, digits and _, not beginning with a digit",
}


def finding(error: ErrorDetails, source: Source, file: str) -> Finding:
    """Converts a pydantic error to a finding in the file that the value came from."""
    key = tuple(str(part) for part in error["loc"] if part != "[key]")
    problem, allowed, remedy = _words(error, key)
    missing = error["type"] == "missing"
    return file_error(
        file if missing else source.origin(key, file),
        ".".join(key),
        problem,
        remedy,
        given=None if missing else error["input"],
        allowed=allowed,
    )


def _words(error: ErrorDetails, key: tuple[str, ...]) -> tuple[str, str, str]:
    kind, given = error["type"], error["input"]
    if error["loc"][-1:] == ("[key]",):
        allowed = _NAMES.get(key[-2], "letters, digits and hyphens, at most 63")
        return f"{key[-1]!r} is not a valid name", allowed, "rename it"
    if kind == "missing":
        if key[0] == "models" and key[2:-1] == ("artifact",):
            return "missing", _meaning(key), f"add {_line(key)}, or `servable pin ENV` writes it"
        return "missing", _meaning(key), f"add {_line(key)}"
    if kind == "extra_forbidden":
        if now := renamed(key):
            return f"{'.'.join(key)} was renamed", now, f"write {now}"
        keys = keys_at(key[:-1])
        close = nearest(key[-1], keys)
        remedy = f"did you mean {close}?" if close else "take it out"
        return f"unknown key {key[-1]!r}", ", ".join(keys), remedy
    if kind in _TYPES:
        allowed = ", ".join(part for part in (_TYPES[kind], _bounds(key)) if part)
        return f"{_shown(given)} is not {_TYPES[kind]}", allowed, _instead(kind, given)
    if kind in _BOUNDS:
        allowed = _bounds(key) or _BOUNDS[kind].format(**error["ctx"])
        return f"{_shown(given)} is out of range", allowed, "change it"
    if kind == "literal_error":
        field = field_at(key)
        literals = typing.get_args(bare(field.annotation)) if field else ()
        return f"{_shown(given)} is not known", ", ".join(map(str, literals)), "use one of those"
    if kind == "string_pattern_mismatch":
        forms = [form for part, form in _FORMS.items() if part in error["ctx"]["pattern"]]
        allowed = f"for example {forms[0]}" if forms else _meaning(key)
        return f"{_shown(given)} does not have the required form", allowed, "change it"
    return error["msg"], _meaning(key), "change it"


def _bounds(key: tuple[str, ...]) -> str:
    """Both bounds of a number's range, whichever was crossed."""
    field = field_at(key)
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


def _meaning(key: tuple[str, ...]) -> str:
    """The first sentence of the field's docstring, without its full stop."""
    return meaning_at(key).split(". ")[0].rstrip(".")


def _instead(kind: str, given: Any) -> str:
    """A remedy that shows how to write what was probably meant."""
    if kind == "string_type" and isinstance(given, int) and not isinstance(given, bool):
        return f'put it in quotes: "{given}"'
    if kind == "list_type" and isinstance(given, str):
        return f'put it in brackets: ["{given}"]'
    if kind in ("int_type", "float_type") and isinstance(given, str) and given.isdecimal():
        return f"leave out the quotes: {given}"
    return "change it"


def _shown(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 60 else text[:57] + "..."


def _line(key: tuple[str, ...]) -> str:
    if key in (("models",), ("variants",)):
        return f"a table [{key[0]}.NAME]"
    if key == ("endpoint",):
        return 'a table [endpoint] with name = "…"'
    table = ".".join(key[:-1])
    return f"{key[-1]} = … to [{table}]" if table else f"{key[-1]} = … at the top of the file"
