"""Filter patterns of CloudWatch Logs: words, quoted phrases, space-delimited fields, and JSON.

Regular expressions on their own are not supported. In patterns of JSON lines, such as
`{ $.status >= 500 && $.path = "/run/*" }`, those between two % are Python's; AWS takes fewer.
Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html and
FilterAndPatternSyntaxForMetricFilters.html next to it (2026-11-27)
"""

import json
import operator
import re
from collections.abc import Callable
from typing import Any

_WORD = re.compile(
    r'\s*(?:(?P<sign>&&|\|\||!=|<=|>=|[()=<>])|"(?P<text>[^"]*)"|%(?P<regex>[^%]*)%'
    r'|(?P<path>\$(?:\.?\[[^\]]*\]|[^\s=!<>&|()])*)|(?P<word>[^\s=!<>&|()"%]+))'
)
_STEP = re.compile(r'\[(?:"([^"]*)"|(\d+|\*))\]|([^.\[\]]+)')
_ORDER: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_STATES = {"NULL": None, "TRUE": True, "FALSE": False}
_Holds = Callable[[Any], bool]
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


def _compile_json(pattern: str) -> Matches:
    """Return whether a line of JSON matches. Raises ValueError for what is not understood."""
    holds = _Reader(pattern).condition()

    def matches(line: str) -> bool:
        try:
            return holds(json.loads(line))
        except ValueError:  # a line that is no JSON
            return False

    return matches


def select(path: str, document: Any) -> list[Any]:
    """Return what `$.a.b[0]` is of a document: nothing, one value, or several for `[*]`."""
    found = [document]
    for name, number, plain in _STEP.findall(path.removeprefix("$")):
        if number == "*":
            found = [inner for value in found if isinstance(value, list) for inner in value]
        elif number:
            found = [v[int(number)] for v in found if isinstance(v, list) and int(number) < len(v)]
        else:
            key = name or plain
            found = [value[key] for value in found if isinstance(value, dict) and key in value]
    return found


class _Reader:
    """Words of a pattern from left to right; && binds closer than ||."""

    def __init__(self, pattern: str) -> None:
        self._pattern, inner = pattern, pattern.strip()[1:-1].strip()
        self._words: list[tuple[str, str]] = []
        at = 0
        while at < len(inner):
            match = _WORD.match(inner, at)
            if match is None or not pattern.strip().endswith("}"):
                raise self._error()
            self._words.append((str(match.lastgroup), match[str(match.lastgroup)]))
            at = match.end()

    def condition(self) -> _Holds:
        holds = self._any()
        if self._words:
            raise self._error()
        return holds

    def _error(self) -> ValueError:
        return ValueError(f"{self._pattern}: not a filter pattern of JSON")

    def _next(self, *kinds: str) -> tuple[str, str]:
        if not self._words or self._words[0][0] not in kinds:
            raise self._error()
        return self._words.pop(0)

    def _is(self, sign: str) -> bool:
        if self._words[:1] != [("sign", sign)]:
            return False
        self._words.pop(0)
        return True

    def _any(self) -> _Holds:
        parts = [self._all()]
        while self._is("||"):
            parts.append(self._all())
        return lambda document: any(holds(document) for holds in parts)

    def _all(self) -> _Holds:
        parts = [self._one()]
        while self._is("&&"):
            parts.append(self._one())
        return lambda document: all(holds(document) for holds in parts)

    def _one(self) -> _Holds:
        if self._is("("):
            inner = self._any()
            if not self._is(")"):
                raise self._error()
            return inner
        path = self._next("path")[1]
        kind, word = self._next("sign", "word")
        if kind == "sign":
            compared = self._comparison(word)
            return lambda document: any(compared(value) for value in select(path, document))
        state = self._next("word")[1].upper()
        if word.upper() == "NOT" and state == "EXISTS":
            return lambda document: not select(path, document)
        if word.upper() == "IS" and state in _STATES:
            return lambda document: any(v is _STATES[state] for v in select(path, document))
        raise self._error()

    def _comparison(self, sign: str) -> _Holds:
        kind, text = self._next("text", "regex", "word")
        number = _number(text) if kind == "word" else None
        if sign in _ORDER and number is not None:
            bound = number
            return lambda value: _is_number(value) and _ORDER[sign](value, bound)
        if sign not in ("=", "!="):
            raise self._error()
        like = re.compile(
            text if kind == "regex" else ".*".join(map(re.escape, text.split("*"))), re.DOTALL
        )
        found = like.search if kind == "regex" else like.fullmatch

        def equal(value: Any) -> bool:
            if number is not None and _is_number(value):
                return bool(value == number)
            return isinstance(value, str) and found(value) is not None

        return lambda value: equal(value) == (sign == "=")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def compile_pattern(pattern: str) -> Matches:
    """Return whether a line matches. Raises ValueError for what is not understood."""
    text = pattern.strip()
    if text.startswith("[") and text.endswith("]"):
        return _fields(text[1:-1])
    if text.startswith("{"):
        return _compile_json(text)
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
