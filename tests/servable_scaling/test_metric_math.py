"""Metric math, one point in time."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_scaling.alarms.query import Expression

NUMBERS = st.floats(-1e6, 1e6)


@given(NUMBERS, NUMBERS)
def test_arithmetic_is_arithmetic(a: float, b: float) -> None:
    assert Expression("(a + b) * 2 - a").compute_value({"a": a, "b": b}) == (a + b) * 2 - a


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
    assert Expression(text).compute_value(values) == pytest.approx(wanted)


def test_what_has_no_data_is_no_datapoint_unless_beside_what_has() -> None:
    for text, result in [("a + b", 1.0), ("b - a", -1.0), ("b / a", 0.0), ("a / b", None)]:
        assert Expression(text).compute_value({"a": 1.0, "b": None}) == result
    for text in ["a + b", "a * 5", "5 - a", "a > 1", "-a", "IF(a > 1, 2, 3)"]:
        assert Expression(text).compute_value({"a": None, "b": None}) is None
    assert Expression("a / b").compute_value({"a": 1.0, "b": 0.0}) is None


@pytest.mark.parametrize(
    "text", ["ANOMALY_DETECTION_BAND(m1)", "SELECT AVG(x) FROM y", "m1 +", "m1.real", "'a'", "[m1]"]
)
def test_what_is_not_emulated_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Cannot parse the expression|is not emulated"):
        Expression(text)


# The documentation's own tables: a metric per list, None where it has no data.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html (2026-11-23)
@pytest.mark.parametrize(
    ("text", "m1", "m2", "m3", "result"),
    [
        ("m1 < m2", (30, 20, 0, 0), (20, None, 20, None), (), (0, 0, 1, 0)),
        ("m1 >= 30", (30, 20, 0, 0), (), (), (1, 0, 0, 0)),
        (
            "IF(m1, m2, m3)",
            (1, 1, 0, 0, None),
            (30, None, 0, 0, 30),
            (0, 0, 20, None, 20),
            (30, 0, 20, None, None),
        ),
        ("IF(m1, 5, m3)", (1, 1, 0, 0, None), (), (0, 0, 20, None, 20), (5, 5, 20, None, None)),
        ("IF(m1, m2, 5)", (1, 1, 0, 0, None), (30, None, 0, 0, 30), (), (30, 0, 5, 5, None)),
        ("IF(m1 < 400, m1)", (399, 400, None), (), (), (399, None, None)),
    ],
)
def test_it_gives_the_documented_values(
    text: str,
    m1: tuple[float | None, ...],
    m2: tuple[float | None, ...],
    m3: tuple[float | None, ...],
    result: tuple[float | None, ...],
) -> None:
    points = itertools.zip_longest(m1, m2, m3)
    values = [dict(zip(("m1", "m2", "m3"), point, strict=True)) for point in points]
    assert tuple(Expression(text).compute_value(point) for point in values) == result
