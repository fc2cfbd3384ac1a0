"""Metric math for one point in time: the operations that alarms and dashboards here use.

Numbers, ids, + - * / ** and comparisons, IF, FILL, ABS, and MAX, MIN, SUM, AVG of a list
`[m1, m2]`. Anything else is refused by name when the alarm is put.
Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence

Values = Mapping[str, float | None]

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_OF_LISTS: dict[str, Callable[[Sequence[float]], float]] = {
    "MAX": max,
    "MIN": min,
    "SUM": sum,
    "AVG": lambda values: sum(values) / len(values),
}


class UnknownExpressionError(ValueError):
    """`str()` says what is not understood."""


class Expression:
    """Parsed once; raises `UnknownExpressionError`."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError:
            raise UnknownExpressionError(f"The expression {text} cannot be read.") from None
        self.ids: set[str] = set()
        self._check(self._tree)

    def value(self, values: Values) -> float | None:
        """None where a metric that it needs has no data, and for a division by zero."""
        return self._value(self._tree, values)

    def _check(self, node: ast.expr) -> None:
        match node:
            case ast.Constant(value=int() | float()):
                return
            case ast.Name(id=name):
                self.ids.add(name)
                return
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                parts = [inner]
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
                parts = [left, right]
            case ast.Compare(left=left, ops=[sign], comparators=[right]) if (
                type(sign) in _COMPARISONS
            ):
                parts = [left, right]
            case ast.Call(func=ast.Name(id="IF"), args=[_, _, _] as parts, keywords=[]):
                pass
            case ast.Call(func=ast.Name(id="FILL"), args=[_, _] as parts, keywords=[]):
                pass
            case ast.Call(func=ast.Name(id="ABS"), args=[_] as parts, keywords=[]):
                pass
            case ast.Call(func=ast.Name(id=name), args=[ast.List(elts=parts)], keywords=[]) if (
                name in _OF_LISTS and parts
            ):
                pass
            case _:
                raise UnknownExpressionError(
                    f"{ast.unparse(node)} in the expression {self.text} is not emulated."
                )
        for part in parts:
            self._check(part)

    def _value(self, node: ast.expr, values: Values) -> float | None:
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)  # checked when it was parsed
            return self._call(node.func.id, node.args, values)
        match node:
            case ast.Constant(value=number):
                assert isinstance(number, int | float)
                return float(number)
            case ast.Name(id=name):
                return values.get(name)
            case ast.UnaryOp(operand=inner):
                found = self._value(inner, values)
                return None if found is None else -found
            case ast.BinOp(left=left, op=sign, right=right):
                return _apply(
                    _BINARY[type(sign)], self._value(left, values), self._value(right, values)
                )
            case ast.Compare(left=left, ops=[sign], comparators=[right]):
                return _apply(
                    _COMPARISONS[type(sign)], self._value(left, values), self._value(right, values)
                )
        raise AssertionError(ast.dump(node))

    def _call(self, name: str, arguments: list[ast.expr], values: Values) -> float | None:
        if name == "FILL":
            found = self._value(arguments[0], values)
            return self._value(arguments[1], values) if found is None else found
        if name == "IF":
            chosen = self._value(arguments[0], values)
            return None if chosen is None else self._value(arguments[1 if chosen else 2], values)
        if name == "ABS":
            found = self._value(arguments[0], values)
            return None if found is None else abs(found)
        assert isinstance(arguments[0], ast.List)
        known = [
            v for v in (self._value(one, values) for one in arguments[0].elts) if v is not None
        ]
        return _OF_LISTS[name](known) if known else None


def _apply(
    function: Callable[[float, float], float], left: float | None, right: float | None
) -> float | None:
    if left is None or right is None:
        return None
    try:
        return float(function(left, right))
    except (ZeroDivisionError, OverflowError):
        return None
