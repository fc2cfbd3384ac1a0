"""Event patterns of EventBridge: why one is none, in AWS's words and with the place in the text.

Upstream (moto 5.2.5): an array that is empty and a text that is no JSON are refused, all else is kept.
AWS compiles patterns with its Event Ruler (https://github.com/aws/event-ruler), whose sentences these are;
those that were recorded are in tests/servable_local/aws/aws_answers.jsonl in the repository.
"""

import json
import re
from collections.abc import Iterator
from typing import NoReturn

_TOKEN = re.compile(r'\s*([{}\[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+)')
_NUMBER = re.compile(r"-?\d")
_STRINGS = ("cidr", "equals-ignore-case", "prefix", "suffix", "wildcard")
_VALUES = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
_NOT_THERE = {
    "Expecting property name enclosed in double quotes": "was expecting double-quote to start field name",
    "Expecting ':' delimiter": "was expecting a colon to separate field name and value",
    "Expecting ',' delimiter": "was expecting comma to separate {} entries",
    "Expecting value": f"expected a valid value {_VALUES}",
}
_SHOWN_CHARACTERS = 500  # of a text; the parser's default


class _PatternError(Exception):
    """A reason, and how many characters were read; `malformed`: of a text that is no JSON."""

    def __init__(self, reason: str, read: int, *, malformed: bool = False) -> None:
        super().__init__(reason)
        self.read, self.malformed = read, malformed

    def place(self, text: str) -> str:
        before = text[: self.read].split("\n")
        return f"line: {len(before)}, column: {len(before[-1]) + 1}"


def problems(text: str) -> Iterator[tuple[str, str]]:
    """Code and message of what is wrong with a pattern, if anything is."""
    wrong = _wrong(text)
    if wrong:
        shown, rest = text[:_SHOWN_CHARACTERS], len(text) - _SHOWN_CHARACTERS
        more = f"[truncated {rest} chars]" if rest > 0 else ""
        yield (
            "InvalidEventPatternException",
            f'Event pattern is not valid. Reason: {wrong}\n at [Source: (String)"{shown}"{more}; '
            f"{wrong.place(text)}]",
        )


def unreadable(text: str, *, rules: bool) -> Iterator[str]:
    """What is wrong with a document of SNS, which does not show it; `rules`: with a filter policy."""
    wrong = _wrong(text)
    if wrong and (wrong.malformed or (rules and text != "{}")):
        parsed = "failed to parse JSON. " if wrong.malformed else ""
        yield (
            f"{parsed}{wrong}\n at [Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` "
            f"disabled); {wrong.place(text)}]"
        )


def _wrong(text: str) -> _PatternError | None:
    try:
        json.loads(text)
        _Pattern(text).check()
    except json.JSONDecodeError as error:
        return _malformed(text, error)
    except _PatternError as error:
        return error
    return None


def _malformed(text: str, error: json.JSONDecodeError) -> _PatternError:
    word = re.match(r"\w+", text[error.pos :])
    if error.pos >= len(text):
        return _PatternError("Unexpected end-of-input", error.pos, malformed=True)
    if error.msg == "Expecting value" and word:
        reason = f"Unrecognized token '{word[0]}': was expecting {_VALUES}"
        return _PatternError(reason, error.pos + len(word[0]), malformed=True)
    character = text[error.pos]
    inside = "Array" if text.rfind("[", 0, error.pos) > text.rfind("{", 0, error.pos) else "Object"
    wanted = _NOT_THERE.get(error.msg, error.msg).format(inside)
    reason = f"Unexpected character ('{character}' (code {ord(character)})): {wanted}"
    return _PatternError(reason, error.pos, malformed=True)


class _Pattern:
    """Reads a text that is JSON from left to right, and ends at the first thing that is wrong."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._token = text, 0, ""

    def check(self) -> None:
        if self._next() != "{":
            self._refuse("Filter is not an object")
        self._object()

    def _next(self) -> str:
        match = _TOKEN.match(self._text, self._at)
        assert match is not None  # it is JSON
        self._at, self._token = match.end(), match[1]
        return self._next() if self._token in (",", ":") else self._token

    def _refuse(self, reason: str, *, unread: bool = False) -> NoReturn:
        """`unread`: of a string only the first quote was read, which is where the parser then is."""
        back = len(self._token) - 1 if unread and self._token.startswith('"') else 0
        raise _PatternError(reason, self._at - back)

    def _object(self) -> None:
        if self._next() == "}":
            self._refuse("Empty objects are not allowed")
        while self._token != "}":
            name = json.loads(self._token)
            match self._next():
                case "{":
                    self._object()
                case "[" if name == "$or":
                    while self._next() != "]":
                        self._object()
                case "[":
                    self._values()
                case _:
                    self._refuse(f'"{name}" must be an object or an array', unread=True)
            self._next()

    def _values(self) -> None:
        if self._next() == "]":
            self._refuse("Empty arrays are not allowed")
        while self._token != "]":
            if self._token == "[":
                self._refuse("Match value must be String, number, true, false, or null")
            if self._token == "{":
                self._expression()
            self._next()

    def _expression(self) -> None:
        if self._next() == "}":
            self._refuse("Match expression name not found")
        kind = json.loads(self._token)
        value = self._next()
        if kind in _STRINGS and not (value.startswith('"') or value == "{"):
            self._refuse(f"{'prefix' if kind == 'cidr' else kind} match pattern must be a string")
        elif kind == "exists" and value not in ("true", "false"):
            self._refuse("exists match pattern must be either true or false.", unread=True)
        elif kind == "numeric":
            self._numeric()
        elif kind not in (*_STRINGS, "exists", "anything-but"):
            self._refuse(f"Unrecognized match type {kind}", unread=True)
        if self._token in ("{", "["):
            self._skip()
        if self._next() != "}":
            self._refuse("Only one key allowed in match expression")

    def _skip(self) -> None:
        """To the end of a list or an object."""
        depth = 1
        while depth:
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(self._next(), 0)

    def _numeric(self) -> None:
        if self._token != "[":
            self._refuse("Value of numeric must be an array.", unread=True)
        first = self._operator("Unrecognized numeric range operator", ("=", "<", "<=", ">", ">="))
        low = self._operand(first)
        if self._next() == "]":
            return
        if not first.startswith(">"):
            few = "Too many elements in numeric expression"
            self._refuse(
                few if first == "=" else "Too many terms in numeric range expression", unread=True
            )
        second = self._operator("Bad numeric range operator", ("<", "<="), read=True)
        if self._operand(second) <= low:
            self._refuse("Bottom must be less than top")
        if self._next() != "]":
            self._refuse("Too many terms in numeric range expression", unread=True)

    def _operator(self, reason: str, allowed: tuple[str, ...], *, read: bool = False) -> str:
        token = self._token if read else self._next()
        if not token.startswith('"'):
            self._refuse(f"Invalid member in numeric match: {token}")
        sign = str(json.loads(token))
        if sign not in allowed:
            self._refuse(f"{reason}: {sign}")
        return sign

    def _operand(self, sign: str) -> float:
        if not _NUMBER.match(self._next()):
            name = "equals" if sign == "=" else sign
            self._refuse(f"Value of {name} must be numeric", unread=True)
        return float(self._token)
