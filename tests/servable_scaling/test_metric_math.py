"""Metric math, one point in time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_scaling.alarms.metric_math import Expression, UnknownExpressionError

NUMBERS = st.floats(-1e6, 1e6)


@given(NUMBERS, NUMBERS)
def test_arithmetic_is_arithmetic(a: float, b: float) -> None:
    assert Expression("(a + b) * 2 - a").value({"a": a, "b": b}) == (a + b) * 2 - a


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("errors / requests * 100", 5.0),
        ("-errors", -1.0),
        ("MAX([errors, requests])", 20.0),
        ("MIN([errors, requests])", 1.0),
        ("SUM([errors, requests])", 21.0),
        ("AVG([errors, requests])", 10.5),
        ("IF(requests > 10, errors, 0)", 1.0),
        ("IF(requests > 30, errors, 0)", 0.0),
        ("FILL(absent, 7)", 7.0),
        ("FILL(errors, 7)", 1.0),
        ("ABS(-2)", 2.0),
        ("SUM([absent, errors])", 1.0),
    ],
)
def test_an_expression_says(text: str, wanted: float) -> None:
    values = {"errors": 1.0, "requests": 20.0, "absent": None}
    assert Expression(text).value(values) == pytest.approx(wanted)


def test_what_is_missing_makes_the_result_missing() -> None:
    assert Expression("a + b").value({"a": 1.0, "b": None}) is None


def test_a_division_by_zero_is_no_datapoint() -> None:
    assert Expression("a / b").value({"a": 1.0, "b": 0.0}) is None


@pytest.mark.parametrize(
    "text", ["ANOMALY_DETECTION_BAND(m1)", "SELECT AVG(x) FROM y", "m1 +", "m1.real", "'a'", "[m1]"]
)
def test_what_is_not_emulated_is_refused(text: str) -> None:
    with pytest.raises(UnknownExpressionError):
        Expression(text)
