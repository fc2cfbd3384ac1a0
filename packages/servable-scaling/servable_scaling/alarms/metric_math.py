"""Metric math for one point in time: the operations that alarms and dashboards here use.

Numbers, ids, + - * / ** and comparisons, IF, FILL, ABS, and MAX, MIN, SUM, AVG of a list
`[m1, m2]`. Anything else is refused by name when the alarm is put. Of two metrics of which one has
no data, arithmetic and comparisons take 0 for it; a metric without data and a number give no data.
Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
(2026-11-23: "Basic arithmetic functions", "Comparison and logical operators", "Using IF expressions")
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
        """None where no metric that it needs has data, and for a division by zero."""
        return self._term(values)

    def _compiled(self, node: ast.expr) -> _Term:
        match node:
            case ast.Constant(value=int() | float() as number):
                return lambda values: float(number)
            case ast.Name(id=name):
                self.ids.add(name)
                return lambda values: values.get(name)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self._applied(operator.neg, inner)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
                return self._applied(_BINARY[type(sign)], left, right)
            case ast.Compare(left=left, ops=[order], comparators=[right]) if (
                type(order) in _COMPARISONS
            ):
                return self._applied(_COMPARISONS[type(order)], left, right)
            case ast.Call(func=ast.Name(id="ABS"), args=[inner], keywords=[]):
                return self._applied(abs, inner)
            case ast.Call(func=ast.Name(id="FILL"), args=[_, _] as parts, keywords=[]):
                series, default = map(self._compiled, parts)
                return lambda values: _filled(series(values), default, values)
            case ast.Call(func=ast.Name(id="IF"), args=[_, _, *_] as parts, keywords=[]) if (
                len(parts) <= 3
            ):
                test, yes, *no = map(self._compiled, parts)
                return lambda values: _chosen(test(values), yes, no, values)
            case ast.Call(func=ast.Name(id=name), args=[ast.List(elts=parts)], keywords=[]) if (
                name in _OF_LISTS and parts
            ):
                return self._aggregated(_OF_LISTS[name], parts)
        raise UnknownExpressionError(
            f"{ast.unparse(node)} in the expression {self.text} is not emulated."
        )

    def _aggregated(
        self, function: Callable[[Sequence[float]], float], parts: Sequence[ast.expr]
    ) -> _Term:
        terms = [self._compiled(part) for part in parts]

        def term(values: Values) -> float | None:
            numbers = [number for each in terms if (number := each(values)) is not None]
            return function(numbers) if numbers else None

        return term

    def _applied(self, function: Callable[..., float], *parts: ast.expr) -> _Term:
        terms = [self._compiled(part) for part in parts]
        # A time series, and not a number, has an id: it begins with a lowercase letter.
        of_metrics = [
            any(isinstance(node, ast.Name) and node.id[0].islower() for node in ast.walk(part))
            for part in parts
        ]

        def term(values: Values) -> float | None:
            operands = [compiled(values) for compiled in terms]
            of_series = [operand for operand, yes in zip(operands, of_metrics, strict=True) if yes]
            if of_series and all(operand is None for operand in of_series):
                return None
            try:
                return float(function(*(operand or 0.0 for operand in operands)))
            except (ZeroDivisionError, OverflowError):
                return None

        return term


def _filled(value: float | None, default: _Term, values: Values) -> float | None:
    return default(values) if value is None else value


def _chosen(test: float | None, yes: _Term, no: Sequence[_Term], values: Values) -> float | None:
    if test:
        return yes(values) or 0.0  # no data counts as 0 in this branch, and is dropped in the other
    return no[0](values) if test is not None and no else None
