"""Filter patterns of CloudWatch Logs: words, quoted phrases, space-delimited fields, and JSON.

Regular expressions, between two %, are not supported.
Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html and
FilterAndPatternSyntaxForMetricFilters.html next to it (2026-11-27)
"""

import json
import operator
import re
from collections.abc import Callable
from typing import Any

Matches = Callable[[str], bool]
_IsMet = Callable[[Any], bool]
_TOKEN = re.compile(
    r'\s*(?:(?P<sign>&&|\|\||!=|<=|>=|[()=<>])|"(?P<text>[^"]*)"'
    r'|(?P<path>\$(?:\.?\[[^\]]*\]|[^\s=!<>&|()])*)|(?P<word>[^\s=!<>&|()"%]+))'
)
_STEP = re.compile(r'\[(?:"([^"]*)"|(\d+|\*))\]|([^.\[\]]+)')
_STATES = {"NULL": None, "TRUE": True, "FALSE": False}
_TERM = re.compile(r'([?-]?)(?:"([^"]*)"|(\S+))')
_FIELD = re.compile(r'\[[^\]]*\]|"[^"]*"|\S+')
_CONDITION = re.compile(r'\s*\w+\s*(!=|<=|>=|=|<|>)\s*(?:"([^"]*)"|(\S+))\s*')
_FIELD_NAME = re.compile(r"\s*\w+\s*")
_ELLIPSIS = "..."
_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def compile_pattern(pattern: str) -> Matches:
    """Compile a pattern to a predicate on lines. Raises ValueError for unsupported ones."""
    text = pattern.strip()
    if text.startswith("[") and text.endswith("]"):
        return _compile_fields(text[1:-1])
    if text.startswith("{"):
        return _compile_json_pattern(text)
    if text.startswith("%"):
        raise ValueError(f"{pattern}: regular expressions aren't supported")
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
        if at is None:  # the last field is the rest of the line
            last = len(conditions) - 1
            fields = [*fields[:last], " ".join(fields[last:])]
        else:  # the ellipsis stands for as many fields as remain
            fields = fields[:at] + fields[len(fields) - (len(conditions) - at) :]
        return all(is_met(field) for is_met, field in zip(conditions, fields, strict=True))

    return is_match


def _compile_condition(text: str) -> _IsMet:
    if _FIELD_NAME.fullmatch(text):
        return lambda field: True
    sign, together = ("||", any) if "||" in text else ("&&", all)
    parts = []
    for part in text.split(sign):
        match = _CONDITION.fullmatch(part)
        if match is None:
            raise ValueError(f"{part} isn't a condition on a field")
        operand = match[2] if match[2] is not None else match[3]
        parts.append(_compile_comparison(match[1], operand, _parse_number))
    return lambda field: together(is_met(field) for is_met in parts)


def _compile_comparison(
    sign: str, operand: str, read_number: Callable[[Any], float | None]
) -> _IsMet:
    """Compile a comparison of numbers or, with = and !=, of texts, in which * is any text."""
    like = re.compile(".*".join(map(re.escape, operand.split("*"))), re.DOTALL)
    bound = _parse_number(operand)

    def is_met(value: Any) -> bool:
        number = read_number(value)
        if bound is not None and number is not None:
            return _COMPARED[sign](number, bound)
        equal = isinstance(value, str) and like.fullmatch(value) is not None
        return sign in ("=", "!=") and equal == (sign == "=")

    return is_met


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _read_json_number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


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


def _compile_json_pattern(pattern: str) -> Matches:
    """Compile a pattern of JSON lines, such as `{ $.status >= 500 && $.path = "/run/*" }`."""
    is_met = _JsonPattern(pattern).parse()

    def is_match(line: str) -> bool:
        try:
            return is_met(json.loads(line))
        except ValueError:  # the line isn't JSON
            return False

    return is_match


class _JsonPattern:
    """A parser of a pattern's tokens from left to right; && binds tighter than ||."""

    def __init__(self, pattern: str) -> None:
        self._pattern, inner = pattern, pattern[1:-1].strip()
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(inner):
            match = _TOKEN.match(inner, at)
            if match is None or not pattern.endswith("}"):
                raise self._build_error()
            self._tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            at = match.end()

    def parse(self) -> _IsMet:
        is_met = self._parse_any()
        if self._tokens:
            raise self._build_error()
        return is_met

    def _build_error(self) -> ValueError:
        return ValueError(f"{self._pattern} isn't a valid JSON filter pattern")

    def _read_token(self, *kinds: str) -> tuple[str, str]:
        if not self._tokens or self._tokens[0][0] not in kinds:
            raise self._build_error()
        return self._tokens.pop(0)

    def _parse_any(self) -> _IsMet:
        return self._parse_joined("||", any, self._parse_all)

    def _parse_all(self) -> _IsMet:
        return self._parse_joined("&&", all, self._parse_one)

    def _parse_joined(
        self, sign: str, together: Callable[[Any], bool], parse_part: Callable[[], _IsMet]
    ) -> _IsMet:
        parts = [parse_part()]
        while self._tokens[:1] == [("sign", sign)]:
            self._tokens.pop(0)
            parts.append(parse_part())
        return lambda document: together(is_met(document) for is_met in parts)

    def _parse_one(self) -> _IsMet:
        if self._tokens[:1] == [("sign", "(")]:
            self._tokens.pop(0)
            inner = self._parse_any()
            if self._read_token("sign")[1] != ")":
                raise self._build_error()
            return inner
        path = self._read_token("path")[1]
        kind, word = self._read_token("sign", "word")
        if kind == "sign":
            operand = self._read_token("text", "word")[1]
            numeric = _parse_number(operand) is not None
            if word not in (_COMPARED if numeric else ("=", "!=")):
                raise self._build_error()
            compared = _compile_comparison(word, operand, _read_json_number)
            return lambda document: any(map(compared, select_values(path, document)))
        state = self._read_token("word")[1].upper()
        if word.upper() == "NOT" and state == "EXISTS":
            return lambda document: not select_values(path, document)
        if word.upper() == "IS" and state in _STATES:
            return lambda document: any(v is _STATES[state] for v in select_values(path, document))
        raise self._build_error()
