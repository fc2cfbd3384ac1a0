"""A composite alarm's rule: ALARM("a") AND NOT (OK(b) OR INSUFFICIENT_DATA(c)).

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutCompositeAlarm.html
"""

import re
from collections.abc import Callable

StateOf = Callable[[str], str]
Test = Callable[[StateOf], bool]
_TOKEN = re.compile(
    r"""\s*(?:(?P<state>ALARM|OK|INSUFFICIENT_DATA)\s*\(\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s()"]+))\s*\)"""
    r"""|(?P<word>AND|OR|NOT|TRUE|FALSE)\b|(?P<bracket>[()]))""",
    re.IGNORECASE,
)


class RuleError(ValueError):
    """`str()` says where the rule cannot be read."""


class AlarmRule:
    """Parsed once. `names` are the alarms it speaks of, by name or ARN as written."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: set[str] = set()
        self._tokens = self._read(text)
        self._at = 0
        self._test = self._either()
        if self._at != len(self._tokens):
            raise RuleError(f"AlarmRule: {self._tokens[self._at][1]} is not expected in: {text}")

    def holds(self, state_of: StateOf) -> bool:
        return self._test(state_of)

    def _read(self, text: str) -> list[tuple[str, str]]:
        tokens, at = [], 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise RuleError(f"AlarmRule: cannot be read at: {text[at:].strip()}")
            at = match.end()
            if state := match["state"]:
                name = match["bare"] or match["quoted"].replace('\\"', '"')
                self.names.add(name)
                tokens.append((state.upper(), name))
            else:
                word = (match["word"] or match["bracket"]).upper()
                tokens.append((word, word))
        return tokens

    def _next(self, *wanted: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at][0] in wanted:
            self._at += 1
            return True
        return False

    def _either(self) -> Test:
        tests = [self._both()]
        while self._next("OR"):
            tests.append(self._both())
        return lambda state_of: any(test(state_of) for test in tests)

    def _both(self) -> Test:
        tests = [self._one()]
        while self._next("AND"):
            tests.append(self._one())
        return lambda state_of: all(test(state_of) for test in tests)

    def _one(self) -> Test:
        if self._next("NOT"):
            inner = self._one()
            return lambda state_of: not inner(state_of)
        if self._next("("):
            inner = self._either()
            if not self._next(")"):
                raise RuleError(f"AlarmRule: a bracket is not closed in: {self.text}")
            return inner
        if self._next("TRUE", "FALSE"):
            truth = self._tokens[self._at - 1][0] == "TRUE"
            return lambda _: truth
        if self._next("ALARM", "OK", "INSUFFICIENT_DATA"):
            state, name = self._tokens[self._at - 1]
            return lambda state_of: state_of(name) == state
        raise RuleError(f"AlarmRule: something is missing at the end of: {self.text}")
