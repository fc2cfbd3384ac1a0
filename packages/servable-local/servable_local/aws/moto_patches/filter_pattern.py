"""Filter patterns of CloudWatch Logs: words, quoted phrases, space-delimited fields and JSON.

Regular expressions on their own are not supported.
Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
"""

import operator
import re
from collections.abc import Callable

from servable_local.aws.moto_patches import json_pattern

Matches = Callable[[str], bool]
_TERM = re.compile(r'([?-]?)(?:"([^"]*)"|(\S+))')
_FIELD = re.compile(r'\[[^\]]*\]|"[^"]*"|\S+')
_CONDITION = re.compile(r'\s*\w+\s*(!=|<=|>=|=|<|>)\s*(?:"([^"]*)"|(\S+))\s*')
_FIELD_NAME = re.compile(r"\s*\w+\s*")
_ELLIPSIS = "..."
_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compiled(pattern: str) -> Matches:
    """Raises ValueError for what is not understood."""
    text = pattern.strip()
    if text.startswith("[") and text.endswith("]"):
        return _fields(text[1:-1])
    if text.startswith("{"):
        return json_pattern.compiled(text)
    if text.startswith("%"):
        raise ValueError(f"{pattern}: regular expressions are not known here")
    return _terms(text)


def _terms(text: str) -> Matches:
    """All of them, none of `-those`; where each has a `?`, any."""
    terms = [(sign, phrase or word) for sign, phrase, word in _TERM.findall(text)]
    if terms and all(sign == "?" for sign, _ in terms):
        return lambda line: any(term in line for _, term in terms)
    return lambda line: all((term in line) == (sign == "") for sign, term in terms if sign != "?")


def _fields(text: str) -> Matches:
    """One condition, or none, for each field; what is in quotes or brackets is one field."""
    parts = [part.strip() for part in text.split(",")]
    at = parts.index(_ELLIPSIS) if _ELLIPSIS in parts else None
    conditions = [_condition(part) for part in parts if part != _ELLIPSIS]

    def matches(line: str) -> bool:
        fields = [field.strip('"[]') for field in _FIELD.findall(line)]
        if len(fields) < len(conditions):
            return False
        if at is None:  # the last field holds the rest of the line
            last = len(conditions) - 1
            fields = [*fields[:last], " ".join(fields[last:])]
        else:  # as many fields as the ellipsis has to stand for
            fields = fields[:at] + fields[len(fields) - (len(conditions) - at) :]
        return all(holds(field) for holds, field in zip(conditions, fields, strict=True))

    return matches


def _condition(text: str) -> Matches:
    if _FIELD_NAME.fullmatch(text):
        return lambda field: True
    for sign, together in (("||", any), ("&&", all)):
        if sign in text:
            parts = [_comparison(part) for part in text.split(sign)]
            return lambda field: together(holds(field) for holds in parts)
    return _comparison(text)


def _comparison(text: str) -> Matches:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text}: not a condition on a field")
    sign, operand = match[1], match[2] if match[2] is not None else match[3]
    like = re.compile(".*".join(map(re.escape, operand.split("*"))), re.DOTALL)

    def holds(field: str) -> bool:
        try:
            return _COMPARED[sign](float(field), float(operand))
        except ValueError:
            return sign in ("=", "!=") and (like.fullmatch(field) is not None) == (sign == "=")

    return holds
