"""Filter patterns of CloudWatch Logs: which lines a metric filter counts.

Words and quoted phrases, and patterns of space-delimited fields; none of JSON, none of
regular expressions.
Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
"""

import operator
import re
from collections.abc import Callable

Matches = Callable[[str], bool]
_TERM = re.compile(r'([?-]?)(?:"([^"]*)"|(\S+))')
_FIELD = re.compile(r'\[[^\]]*\]|"[^"]*"|\S+')
_CONDITION = re.compile(r'\s*\w+\s*(!=|<=|>=|=|<|>)\s*(?:"([^"]*)"|(\S+))\s*')
_NAME = re.compile(r"\s*\w+\s*")
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
    if text.startswith(("{", "%")):
        raise ValueError(f"{pattern}: patterns of JSON and regular expressions are not known here")
    return _terms(text)


def _terms(text: str) -> Matches:
    """All of them, none of `-those`; where each has a `?`, any."""
    found = [(sign, phrase or word) for sign, phrase, word in _TERM.findall(text)]
    if found and all(sign == "?" for sign, _ in found):
        return lambda line: any(term in line for _, term in found)
    wanted = [term for sign, term in found if sign == ""]
    banned = [term for sign, term in found if sign == "-"]
    return lambda line: (
        all(term in line for term in wanted) and not any(term in line for term in banned)
    )


def _fields(text: str) -> Matches:
    """One condition, or none, for each field; what is in quotes or brackets is one field."""
    parts = [one.strip() for one in text.split(",")]
    at = parts.index(_ELLIPSIS) if _ELLIPSIS in parts else None
    conditions = [_condition(one) for one in parts if one != _ELLIPSIS]

    def matches(line: str) -> bool:
        fields = [one.strip('"[]') for one in _FIELD.findall(line)]
        if len(fields) < len(conditions):
            return False
        if at is None:  # the last field holds the rest of the line
            last = len(conditions) - 1
            fields = [*fields[:last], " ".join(fields[last:])]
        else:  # as many fields as the ellipsis has to stand for
            fields = fields[:at] + fields[len(fields) - (len(conditions) - at) :]
        return all(holds(one) for holds, one in zip(conditions, fields, strict=True))

    return matches


def _condition(text: str) -> Matches:
    if _NAME.fullmatch(text):
        return lambda field: True
    for sign, together in (("||", any), ("&&", all)):
        if sign in text:
            parts = [_comparison(one) for one in text.split(sign)]
            return lambda field: together(holds(field) for holds in parts)
    return _comparison(text)


def _comparison(text: str) -> Matches:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text}: not a condition on a field")
    sign, wanted = found[1], found[2] if found[2] is not None else found[3]
    like = re.compile(".*".join(map(re.escape, wanted.split("*"))), re.DOTALL)

    def holds(field: str) -> bool:
        try:
            return _COMPARED[sign](float(field), float(wanted))
        except ValueError:
            return sign in ("=", "!=") and (like.fullmatch(field) is not None) == (sign == "=")

    return holds
