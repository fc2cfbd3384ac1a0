"""The states of alarms: held to the tables of CloudWatch's documentation, and a composite alarm's rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_scaling.alarms.alarm_state import AlarmRule, State, Treatment, decide_state

NOW: State = "INSUFFICIENT_DATA"  # in the tables: "retain current state"
TREATMENTS: tuple[Treatment, ...] = ("missing", "ignore", "breaching", "notBreaching")
_POINT = {"0": False, "X": True, "-": None}

THREE_OF_THREE: dict[str, tuple[State, ...]] = {
    "0-X-X": ("OK", "OK", "OK", "OK"),
    "----0": ("OK", "OK", "OK", "OK"),
    "-----": ("INSUFFICIENT_DATA", NOW, "ALARM", "OK"),
    "0XX-X": ("ALARM", "ALARM", "ALARM", "ALARM"),
    "--X--": ("ALARM", NOW, "ALARM", "OK"),
}
TWO_OF_THREE: dict[str, tuple[State, ...]] = {
    "0-X-X": ("ALARM", "ALARM", "ALARM", "ALARM"),
    "00X0X": ("ALARM", "ALARM", "ALARM", "ALARM"),
    "0-X--": ("OK", "OK", "ALARM", "OK"),
    "----0": ("OK", "OK", "ALARM", "OK"),
    "---X-": ("ALARM", NOW, "ALARM", "OK"),
}


def _decide(points: str, m: int, n: int, treatment: Treatment, now: State = NOW) -> State:
    return decide_state([_POINT[point] for point in points], m=m, n=n, treatment=treatment, now=now)


@pytest.mark.parametrize(("m", "table"), [(3, THREE_OF_THREE), (2, TWO_OF_THREE)])
def test_of_three_as_in_the_documentation(m: int, table: dict[str, tuple[State, ...]]) -> None:
    for points, states in table.items():
        found = tuple(_decide(points, m, 3, treatment) for treatment in TREATMENTS)
        assert (points, found) == (points, states)


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


@given(evaluations(), st.sampled_from(TREATMENTS), st.sampled_from(["OK", "ALARM"]))
def test_breaches_missing_data_and_the_state_before_decide_only_as_they_may(
    one: tuple[list[bool | None], int, int], treatment: Treatment, now: State
) -> None:
    points, m, n = one

    def decide(
        points: list[bool | None], treatment: Treatment = treatment, now: State = "OK"
    ) -> State:
        return decide_state(points, m=m, n=n, treatment=treatment, now=now)

    # Where all of N are there, only their count decides.
    whole: list[bool | None] = [point is True for point in points]
    assert decide(whole, now=NOW) == ("ALARM" if whole[-n:].count(True) >= m else "OK")

    # One more breaching datapoint never ends an alarm.
    worse: list[bool | None] = [True if point is False else point for point in points]
    assert decide(points) != "ALARM" or decide(worse) == "ALARM" or treatment == "ignore"

    # Data without a breach are an alarm only where missing is breaching, or the state stays.
    calm = [False if point is not None else None for point in points]
    stays = treatment == "ignore" and now == "ALARM"
    assert decide(calm, now=now) != "ALARM" or treatment == "breaching" or stays

    assert decide(points, "notBreaching") != "ALARM" or decide(points, "breaching") == "ALARM"
    assert len({decide(points, now=now), decide(points, now=NOW)}) == 1 or treatment == "ignore"


STATES = {"a": "ALARM", "b": "OK", "c d": "INSUFFICIENT_DATA"}


def _holds(text: str) -> bool:
    return AlarmRule(text).is_met(STATES.__getitem__)


def test_a_rule_holds_or_not_and_knows_its_alarms_and_one_that_cannot_be_read_is_refused() -> None:
    for text, wanted in [
        ('ALARM("a")', True),
        ("OK(b)", True),
        ('INSUFFICIENT_DATA("c d")', True),
        ("alarm(a) and not ok(a)", True),
        ("FALSE OR (TRUE AND NOT FALSE)", True),
        ("OK(b) OR TRUE AND FALSE", True),
    ]:
        assert _holds(text) is wanted
    assert AlarmRule('ALARM(a) AND NOT OK("c d")').names == {"a", "c d"}
    for text in [
        "", "ALARM()", "ALARM(a", "(TRUE", "TRUE FALSE", "AND", "a", "NOT", "NOT TRUE (FALSE)",
        "()",
    ]:  # fmt: skip
        with pytest.raises(ValueError, match="AlarmRule: cannot be parsed"):
            AlarmRule(text)


TREES = st.recursive(
    st.sampled_from(["TRUE", "FALSE", "ALARM(a)", "OK(a)"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda t: f"({' '.join(t)})"),
        inner.map(lambda one: f"NOT {one}"),
    ),
    max_leaves=12,
)


@given(TREES)
def test_a_rule_means_what_the_same_words_mean_in_python(text: str) -> None:
    words = text.replace("ALARM(a)", "True").replace("OK(a)", "False")
    for upper, lower in {"TRUE": "True", "FALSE": "False"}.items():
        words = words.replace(upper, lower)
    words = words.replace("AND", "and").replace("OR", "or").replace("NOT", "not")
    assert _holds(text) is bool(eval(words))
