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


def _compile_json_pattern(pattern: str) -> Matches:
    """Compile a pattern of JSON lines. Raises ValueError for an unsupported pattern."""
    holds = _Reader(pattern).parse_condition()

    def is_match(line: str) -> bool:
        try:
            return holds(json.loads(line))
        except ValueError:  # a line that is no JSON
            return False

    return is_match


def select_values(path: str, document: Any) -> list[Any]:
    """Return the values at a path such as `$.a.b[0]`: none, one, or several for `[*]`."""
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
    """A parser of a pattern's words from left to right; && binds closer than ||."""

    def __init__(self, pattern: str) -> None:
        self._pattern, inner = pattern, pattern.strip()[1:-1].strip()
        self._words: list[tuple[str, str]] = []
        at = 0
        while at < len(inner):
            match = _WORD.match(inner, at)
            if match is None or not pattern.strip().endswith("}"):
                raise self._build_error()
            self._words.append((str(match.lastgroup), match[str(match.lastgroup)]))
            at = match.end()

    def parse_condition(self) -> _Holds:
        holds = self._parse_any()
        if self._words:
            raise self._build_error()
        return holds

    def _build_error(self) -> ValueError:
        return ValueError(f"{self._pattern}: not a filter pattern of JSON")

    def _read_word(self, *kinds: str) -> tuple[str, str]:
        if not self._words or self._words[0][0] not in kinds:
            raise self._build_error()
        return self._words.pop(0)

    def _accept_sign(self, sign: str) -> bool:
        if self._words[:1] != [("sign", sign)]:
            return False
        self._words.pop(0)
        return True

    def _parse_any(self) -> _Holds:
        parts = [self._parse_all()]
        while self._accept_sign("||"):
            parts.append(self._parse_all())
        return lambda document: any(holds(document) for holds in parts)

    def _parse_all(self) -> _Holds:
        parts = [self._parse_one()]
        while self._accept_sign("&&"):
            parts.append(self._parse_one())
        return lambda document: all(holds(document) for holds in parts)

    def _parse_one(self) -> _Holds:
        if self._accept_sign("("):
            inner = self._parse_any()
            if not self._accept_sign(")"):
                raise self._build_error()
            return inner
        path = self._read_word("path")[1]
        kind, word = self._read_word("sign", "word")
        if kind == "sign":
            compared = self._parse_comparison(word)
            return lambda document: any(compared(value) for value in select_values(path, document))
        state = self._read_word("word")[1].upper()
        if word.upper() == "NOT" and state == "EXISTS":
            return lambda document: not select_values(path, document)
        if word.upper() == "IS" and state in _STATES:
            return lambda document: any(v is _STATES[state] for v in select_values(path, document))
        raise self._build_error()

    def _parse_comparison(self, sign: str) -> _Holds:
        kind, text = self._read_word("text", "regex", "word")
        number = _parse_number(text) if kind == "word" else None
        if sign in _ORDER and number is not None:
            bound = number
            return lambda value: _is_number(value) and _ORDER[sign](value, bound)
        if sign not in ("=", "!="):
            raise self._build_error()
        like = re.compile(
            text if kind == "regex" else ".*".join(map(re.escape, text.split("*"))), re.DOTALL
        )
        found = like.search if kind == "regex" else like.fullmatch

        def is_equal(value: Any) -> bool:
            if number is not None and _is_number(value):
                return bool(value == number)
            return isinstance(value, str) and found(value) is not None

        return lambda value: is_equal(value) == (sign == "=")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def compile_pattern(pattern: str) -> Matches:
    """Compile a pattern to a predicate on lines. Raises ValueError for unsupported ones."""
    text = pattern.strip()
    if text.startswith("[") and text.endswith("]"):
        return _compile_fields(text[1:-1])
    if text.startswith("{"):
        return _compile_json_pattern(text)
    if text.startswith("%"):
        raise ValueError(f"{pattern}: regular expressions are not known here")
    return _compile_terms(text)


def _compile_terms(text: str) -> Matches:
    """Compile terms: match all, and none of `-those`; if each has a `?`, any of them."""
    terms = [(sign, phrase or word) for sign, phrase, word in _TERM.findall(text)]
    if terms and all(sign == "?" for sign, _ in terms):
        return lambda line: any(term in line for _, term in terms)
    return lambda line: all((term in line) == (sign == "") for sign, term in terms if sign != "?")


def _compile_fields(text: str) -> Matches:
    """Compile one condition, or none, per field; text in quotes or brackets is one field."""
    parts = [part.strip() for part in text.split(",")]
    at = parts.index(_ELLIPSIS) if _ELLIPSIS in parts else None
    conditions = [_compile_condition(part) for part in parts if part != _ELLIPSIS]

    def is_match(line: str) -> bool:
        fields = [field.strip('"[]') for field in _FIELD.findall(line)]
        if len(fields) < len(conditions):
            return False
        if at is None:  # the last field holds the rest of the line
            last = len(conditions) - 1
            fields = [*fields[:last], " ".join(fields[last:])]
        else:  # as many fields as the ellipsis has to stand for
            fields = fields[:at] + fields[len(fields) - (len(conditions) - at) :]
        return all(holds(field) for holds, field in zip(conditions, fields, strict=True))

    return is_match


def _compile_condition(text: str) -> Matches:
    if _FIELD_NAME.fullmatch(text):
        return lambda field: True
    for sign, together in (("||", any), ("&&", all)):
        if sign in text:
            parts = [_compile_comparison(part) for part in text.split(sign)]
            return lambda field: together(holds(field) for holds in parts)
    return _compile_comparison(text)


def _compile_comparison(text: str) -> Matches:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text}: not a condition on a field")
    sign, operand = match[1], match[2] if match[2] is not None else match[3]
    like = re.compile(".*".join(map(re.escape, operand.split("*"))), re.DOTALL)

    def is_match(field: str) -> bool:
        try:
            return _COMPARED[sign](float(field), float(operand))
        except ValueError:
            return sign in ("=", "!=") and (like.fullmatch(field) is not None) == (sign == "=")

    return is_match
