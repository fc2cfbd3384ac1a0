"""An alarm's decision, held to the tables of CloudWatch's own documentation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_scaling.alarms.alarm_state import State, Treatment, decide_state

NOW: State = "INSUFFICIENT_DATA"  # in the tables: "retain current state"
TREATMENTS: tuple[Treatment, ...] = ("missing", "ignore", "breaching", "notBreaching")
_POINT = {"0": False, "X": True, "-": None}

THREE_OF_THREE = {
    "0-X-X": ("OK", "OK", "OK", "OK"),
    "----0": ("OK", "OK", "OK", "OK"),
    "-----": ("INSUFFICIENT_DATA", NOW, "ALARM", "OK"),
    "0XX-X": ("ALARM", "ALARM", "ALARM", "ALARM"),
    "--X--": ("ALARM", NOW, "ALARM", "OK"),
}
TWO_OF_THREE = {
    "0-X-X": ("ALARM", "ALARM", "ALARM", "ALARM"),
    "00X0X": ("ALARM", "ALARM", "ALARM", "ALARM"),
    "0-X--": ("OK", "OK", "ALARM", "OK"),
    "----0": ("OK", "OK", "ALARM", "OK"),
    "---X-": ("ALARM", NOW, "ALARM", "OK"),
}


def _decide(points: str, m: int, n: int, treatment: Treatment, now: State = NOW) -> State:
    return decide_state([_POINT[point] for point in points], m=m, n=n, treatment=treatment, now=now)


@pytest.mark.parametrize("points", THREE_OF_THREE)
@pytest.mark.parametrize("column", range(4), ids=TREATMENTS)
def test_three_of_three_as_in_the_documentation(points: str, column: int) -> None:
    assert _decide(points, 3, 3, TREATMENTS[column]) == THREE_OF_THREE[points][column]


@pytest.mark.parametrize("points", TWO_OF_THREE)
@pytest.mark.parametrize("column", range(4), ids=TREATMENTS)
def test_two_of_three_as_in_the_documentation(points: str, column: int) -> None:
    assert _decide(points, 2, 3, TREATMENTS[column]) == TWO_OF_THREE[points][column]


def test_young_breaching_data_alone_is_no_alarm_yet_and_where_missing_is_ignored_m_are() -> None:
    for points in ["----X", "---X-"]:
        assert _decide(points, 3, 3, "missing") != "ALARM"
    # Inferred: AWS's tables have no row with a breach less than N and all that is there breaching.
    for breaches, after in [([True, None, True], "ALARM"), ([True, None, None], "OK")]:
        assert decide_state(breaches, m=2, n=3, treatment="ignore", now="OK") == after


@st.composite
def evaluations(draw: st.DrawFn) -> tuple[list[bool | None], int, int]:
    n = draw(st.integers(1, 8))
    m = draw(st.integers(1, n))
    points = draw(st.lists(st.sampled_from([True, False, None]), min_size=n + 2, max_size=n + 2))
    return points, m, n


@given(evaluations(), st.sampled_from(TREATMENTS))
def test_with_all_of_n_there_only_their_count_decides(
    one: tuple[list[bool | None], int, int], treatment: Treatment
) -> None:
    points, m, n = one
    whole = [point is True for point in points]
    wanted = "ALARM" if sum(whole[-n:]) >= m else "OK"
    assert decide_state(whole, m=m, n=n, treatment=treatment, now=NOW) == wanted


@given(evaluations(), st.sampled_from(TREATMENTS))
def test_one_more_breaching_datapoint_never_ends_an_alarm(
    one: tuple[list[bool | None], int, int], treatment: Treatment
) -> None:
    points, m, n = one
    before = decide_state(points, m=m, n=n, treatment=treatment, now="OK")
    worse = [True if point is False else point for point in points]
    after = decide_state(worse, m=m, n=n, treatment=treatment, now="OK")
    assert before != "ALARM" or after == "ALARM" or treatment == "ignore"


@given(evaluations(), st.sampled_from(TREATMENTS), st.sampled_from(["OK", "ALARM"]))
def test_data_without_a_breach_is_an_alarm_only_where_missing_is_breaching(
    one: tuple[list[bool | None], int, int], treatment: Treatment, now: State
) -> None:
    points, m, n = one
    calm = [False if point is not None else None for point in points]
    alarmed = decide_state(calm, m=m, n=n, treatment=treatment, now=now) == "ALARM"
    assert not alarmed or treatment == "breaching" or (treatment == "ignore" and now == "ALARM")


@given(evaluations())
def test_what_is_missing_alarms_most_where_it_counts_as_breaching(
    one: tuple[list[bool | None], int, int],
) -> None:
    points, m, n = one
    strict = decide_state(points, m=m, n=n, treatment="breaching", now="OK")
    lenient = decide_state(points, m=m, n=n, treatment="notBreaching", now="OK")
    assert lenient != "ALARM" or strict == "ALARM"


@given(evaluations(), st.sampled_from(TREATMENTS), st.sampled_from(["OK", "ALARM"]))
def test_the_state_before_matters_only_where_missing_is_ignored(
    one: tuple[list[bool | None], int, int], treatment: Treatment, now: State
) -> None:
    points, m, n = one
    states = {decide_state(points, m=m, n=n, treatment=treatment, now=s) for s in (now, NOW)}
    assert len(states) == 1 or treatment == "ignore"
