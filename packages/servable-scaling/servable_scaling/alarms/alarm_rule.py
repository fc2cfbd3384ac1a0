"""A composite alarm's rule: ALARM("a") AND NOT (OK(b) OR INSUFFICIENT_DATA(c)).

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutCompositeAlarm.html
"""

import ast
import re
from collections.abc import Callable, Iterator

StateOf = Callable[[str], str]
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
        # Each test of a state, by the name that stands for it in the rule as Python reads it.
        self._tests: dict[str, tuple[str, str]] = {}
        # CloudWatch's words bind as Python's do: NOT before AND before OR.
        words = " ".join(self._words(text))
        try:
            self._tree = ast.parse(words, mode="eval").body
        except SyntaxError:
            raise RuleError(f"AlarmRule: cannot be read: {text}") from None
        if any(isinstance(node, ast.Call | ast.Tuple) for node in ast.walk(self._tree)):
            raise RuleError(f"AlarmRule: cannot be read: {text}")
        self.names = {name for _, name in self._tests.values()}

    def holds(self, state_of: StateOf) -> bool:
        return self._value(self._tree, state_of)

    def _words(self, text: str) -> Iterator[str]:
        at = 0
        while text[at:].strip():
            if not (match := _TOKEN.match(text, at)):
                raise RuleError(f"AlarmRule: cannot be read at: {text[at:].strip()}")
            at = match.end()
            if state := match["state"]:
                name = match["bare"] or match["quoted"].replace('\\"', '"')
                stand_in = f"_{len(self._tests)}"
                self._tests[stand_in] = (state.upper(), name)
                yield stand_in
            else:
                word = (match["word"] or match["bracket"]).lower()
                yield word.title() if word in ("true", "false") else word

    def _value(self, node: ast.expr, state_of: StateOf) -> bool:
        match node:
            case ast.Name(id=stand_in):
                state, name = self._tests[stand_in]
                return state_of(name) == state
            case ast.Constant(value=bool() as truth):
                return truth
            case ast.UnaryOp(operand=inner):
                return not self._value(inner, state_of)
            case ast.BoolOp(op=ast.And(), values=parts):
                return all(self._value(part, state_of) for part in parts)
            case ast.BoolOp(values=parts):
                return any(self._value(part, state_of) for part in parts)
        raise RuleError(f"AlarmRule: cannot be read: {self.text}")
