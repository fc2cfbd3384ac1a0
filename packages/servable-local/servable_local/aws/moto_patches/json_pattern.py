"""Filter patterns of JSON lines: `{ $.status >= 500 && $.path = "/run/*" }`.

Regular expressions between two % are Python's here; AWS takes fewer.
Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntaxForMetricFilters.html
(2026-11-27)
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


def compiled(pattern: str) -> Callable[[str], bool]:
    """Whether a line matches. Raises ValueError for what is not understood."""
    holds = _Reader(pattern).condition()

    def matches(line: str) -> bool:
        try:
            return holds(json.loads(line))
        except ValueError:  # a line that is no JSON
            return False

    return matches


def selected(path: str, document: Any) -> list[Any]:
    """What `$.a.b[0]` is of a document: nothing, one value, or several for `[*]`."""
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
            return lambda document: any(compared(value) for value in selected(path, document))
        state = self._next("word")[1].upper()
        if word.upper() == "NOT" and state == "EXISTS":
            return lambda document: not selected(path, document)
        if word.upper() == "IS" and state in _STATES:
            return lambda document: any(v is _STATES[state] for v in selected(path, document))
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
