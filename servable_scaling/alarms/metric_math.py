"""Metric math for one point in time: the operations that alarms and dashboards here use.

Numbers, ids, + - * / ** and comparisons, IF, FILL, ABS, and MAX, MIN, SUM, AVG of a list
`[m1, m2]`. Anything else is refused by name when the alarm is put.
Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence

Values = Mapping[str, float | None]
_Term = Callable[[Values], float | None]

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
    """Compiled once, to a function of the metrics' values; raises `UnknownExpressionError`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.ids: set[str] = set()
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError:
            raise UnknownExpressionError(f"The expression {text} cannot be read.") from None
        self._term = self._compiled(tree)

    def value(self, values: Values) -> float | None:
        """None where a metric that it needs has no data, and for a division by zero."""
        return self._term(values)

    def _compiled(self, node: ast.expr) -> _Term:
        match node:
            case ast.Constant(value=int() | float() as number):
                return lambda values: float(number)
            case ast.Name(id=name):
                self.ids.add(name)
                return lambda values: values.get(name)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return _applied(operator.neg, self._compiled(inner))
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
                both = self._compiled(left), self._compiled(right)
                return _applied(_BINARY[type(sign)], *both)
            case ast.Compare(left=left, ops=[order], comparators=[right]) if (
                type(order) in _COMPARISONS
            ):
                both = self._compiled(left), self._compiled(right)
                return _applied(_COMPARISONS[type(order)], *both)
            case ast.Call(func=ast.Name(id="ABS"), args=[inner], keywords=[]):
                return _applied(abs, self._compiled(inner))
            case ast.Call(func=ast.Name(id="FILL"), args=[_, _] as parts, keywords=[]):
                wanted, default = map(self._compiled, parts)
                return lambda values: _first_known(wanted(values), default, values)
            case ast.Call(func=ast.Name(id="IF"), args=[_, _, _] as parts, keywords=[]):
                test, yes, no = map(self._compiled, parts)
                return lambda values: _chosen(test(values), yes, no, values)
            case ast.Call(func=ast.Name(id=name), args=[ast.List(elts=parts)], keywords=[]) if (
                name in _OF_LISTS and parts
            ):
                terms = [self._compiled(part) for part in parts]
                return lambda values: _of_known(_OF_LISTS[name], [term(values) for term in terms])
        raise UnknownExpressionError(
            f"{ast.unparse(node)} in the expression {self.text} is not emulated."
        )


def _first_known(found: float | None, default: _Term, values: Values) -> float | None:
    return default(values) if found is None else found


def _chosen(test: float | None, yes: _Term, no: _Term, values: Values) -> float | None:
    return None if test is None else (yes if test else no)(values)


def _of_known(
    function: Callable[[Sequence[float]], float], found: Sequence[float | None]
) -> float | None:
    known = [value for value in found if value is not None]
    return function(known) if known else None


def _applied(function: Callable[..., float], *terms: _Term) -> _Term:
    def term(values: Values) -> float | None:
        found = [one(values) for one in terms]
        try:
            return None if None in found else float(function(*found))
        except (ZeroDivisionError, OverflowError):
            return None

    return term
