"""Metric alarms: what PutMetricAlarm takes, their states and reasons; and a composite alarm's rule."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_scaling.alarms.alarm_state import (
    AlarmRule,
    Evaluation,
    MetricAlarmRule,
    State,
    Treatment,
    decide_state,
    format_timestamp,
)
from servable_scaling.alarms.query import MetricQuery
from tests.servable_scaling.minutes import Numbers, at

ALARM: dict[str, Any] = {
    "AlarmName": "use", "Namespace": "Own", "MetricName": "Use", "Statistic": "Average",
    "Period": 60, "EvaluationPeriods": 2, "Threshold": 50,
    "ComparisonOperator": "GreaterThanThreshold",
}  # fmt: skip


def rule(**more: Any) -> MetricAlarmRule:
    given = ALARM | more
    return MetricAlarmRule({name: value for name, value in given.items() if value is not None})


def stat(name: str, *, period: int | None = 60, **more: Any) -> dict[str, Any]:
    timed = {} if period is None else {"Period": period}
    metric = {"Namespace": "Own", "MetricName": name}
    return {"Id": name.lower(), "MetricStat": {"Metric": metric, "Stat": "Sum", **timed}, **more}


def expression(text: str, name: str = "e") -> dict[str, Any]:
    return {"Id": name, "Expression": text}


RETURNED = {"Metrics": [stat("Use", ReturnData=True), stat("Errors", ReturnData=True)]}
KEPT = {"Metrics": [stat("Use", ReturnData=False), stat("Errors", ReturnData=False)]}


@pytest.mark.parametrize(("more", "problem"), [
    ({"EvaluationWindow": {}}, "EvaluationWindow is not emulated"),
    ({"ComparisonOperator": "GreaterThanUpperThreshold"},
     "GreaterThanUpperThreshold (anomaly detection) is not emulated"),
    ({"Threshold": None}, "The parameter Threshold is required."),
    ({"DatapointsToAlarm": 3}, "at least 1 and at most EvaluationPeriods, not 3 of 2."),
    ({"DatapointsToAlarm": 0}, "at least 1 and at most EvaluationPeriods, not 0 of 2."),
    ({"TreatMissingData": "good"},
     "Option good is not supported. Supported options for parameter TreatMissingData are "
     "missing, ignore, breaching, notBreaching."),
    ({"MetricName": None}, "either Statistic or ExtendedStatistic are required"),
    ({"Namespace": None}, "either Statistic or ExtendedStatistic are required"),
    ({"Statistic": None}, "either Statistic or ExtendedStatistic are required"),
    ({"ExtendedStatistic": "p99"}, "Statistic or ExtendedStatistic must be given, not both"),
    ({"Statistic": "Median"}, "The statistic Median is not emulated"),
    ({"Period": 0}, "Period must be 10, 20, 30 or a multiple of 60 seconds, not 0."),
    ({"Period": 90}, "not 90."),
    ({"Metrics": [{"Id": "m1"}]}, "The query m1 has neither MetricStat nor Expression."),
    ({"Metrics": [expression("m1 + m2")]}, "The expression m1 + m2 refers to m1, m2."),
    ({"Metrics": [expression("1 + 2")]}, "The expression 1 + 2 refers to no metric ID."),
    ({"Metrics": [expression("e * 2")]}, "The expressions e refer to each other."),
    ({"Metrics": [expression("b + 1", "a"), expression("a + 1", "b")]},
     "The expressions a, b refer to each other."),
    (RETURNED, "must have ReturnData true, not use, errors."),
    (KEPT, "must have ReturnData true, not none."),
])  # fmt: skip
def test_an_alarm_that_cannot_be_is_refused_in_words(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        rule(**more)
    assert problem in str(raised.value)


def test_a_period_is_of_high_resolution_or_whole_minutes_and_of_math_the_longest() -> None:
    for period in [10, 20, 30, 60, 300]:
        assert rule(Period=period).period_seconds == period
    stats = [stat("Use", ReturnData=False), stat("Errors", period=300, ReturnData=False)]
    assert rule(Metrics=[*stats, expression("errors / use")]).period_seconds == 300
    assert rule(Metrics=[stat("Use", period=None)]).period_seconds == 60


COMPARED = {
    "GreaterThanOrEqualToThreshold": (True, [False, True, True]),
    "GreaterThanThreshold": (True, [False, False, True]),
    "LessThanThreshold": (False, [True, False, False]),
    "LessThanOrEqualToThreshold": (False, [True, True, False]),
}


def test_a_comparison_is_what_its_name_says_of_the_last_datapoints() -> None:
    for comparison in COMPARED:
        upward, breaching = COMPARED[comparison]
        compared = rule(ComparisonOperator=comparison, EvaluationPeriods=1)
        states = []
        for value in (49.0, 50.0, 51.0):
            found = compared.evaluate(Numbers(Use=[value]), at(5), "OK")
            assert found is not None
            states.append(found.state == "ALARM")
        assert (compared.upward, states) == (upward, breaching)
    found = rule().evaluate(Numbers(Use=[10.0, 20.0, 30.0, 40.0]), at(4), "OK")
    assert found is not None
    assert [value for _, value in found.datapoints] == [30.0, 40.0]


class Few(Numbers):
    """Numbers with so many samples in each minute."""

    def __init__(self, count: float) -> None:
        super().__init__(Use=[60.0])
        self.count = count

    def count_samples(self, query: MetricQuery, start: datetime, end: datetime) -> float:
        return self.count * ((end - start) / timedelta(minutes=1))


# "Percentile-based CloudWatch alarms and low data samples": 10 / (1 - percentile) samples from p50 on,
# 10 / percentile below it.
def test_a_percentile_of_few_samples_can_be_left_unjudged_and_nothing_else() -> None:
    for percentile, enough in [("p99", 1000), ("p90", 100), ("p50", 20), ("p40", 25), ("p10", 100)]:
        few = {"ExtendedStatistic": percentile, "EvaluateLowSampleCountPercentile": "ignore"}
        ignoring = rule(Statistic=None, **few)
        judged = [ignoring.evaluate(Few(enough + more), at(5), "OK") for more in (-1, 1)]
        assert [one is not None for one in judged] == [False, True]

    for more in [
        {"EvaluateLowSampleCountPercentile": "evaluate", "ExtendedStatistic": "p99"},
        {"EvaluateLowSampleCountPercentile": "ignore", "ExtendedStatistic": "p100"},
        {"EvaluateLowSampleCountPercentile": "ignore", "ExtendedStatistic": "p0"},
        {"EvaluateLowSampleCountPercentile": "ignore", "Statistic": "Average"},
    ]:
        assert rule(**({"Statistic": None} | more)).evaluate(Few(1), at(5), "OK") is not None

    few = {"ExtendedStatistic": "p90", "EvaluateLowSampleCountPercentile": "ignore"}
    assert rule(Statistic=None, Period=300, **few).evaluate(Few(21), at(25), "OK") is not None

    metrics = [stat("Use", ReturnData=False), expression("use * 2")]
    judging = rule(Metrics=metrics, EvaluateLowSampleCountPercentile="ignore")
    assert judging.evaluate(Few(1), at(5), "OK") is not None


def evaluation(state: State, *values: float) -> Evaluation:
    return Evaluation(at(5), state, [(at(minute), value) for minute, value in enumerate(values)])


@pytest.mark.parametrize(("more", "state", "values", "reason"), [
    ({}, "ALARM", [60.0, 70.0],
     "Threshold Crossed: 2 out of the last 2 datapoints [70.0 (23/11/26 00:01:00), 60.0 "
     "(23/11/26 00:00:00)] were greater than the threshold (50.0) (minimum 2 datapoints for "
     "OK -> ALARM transition)."),
    ({"DatapointsToAlarm": 1}, "ALARM", [40.0, 70.0],
     "Threshold Crossed: 1 out of the last 2 datapoints [70.0 (23/11/26 00:01:00)] were "
     "greater than the threshold (50.0) (minimum 1 datapoint for OK -> ALARM transition)."),
    ({"ComparisonOperator": "LessThanOrEqualToThreshold"}, "OK", [40.0, 70.0],
     "Threshold Crossed: 1 out of the last 2 datapoints [70.0 (23/11/26 00:01:00)] were not "
     "less than or equal to the threshold (50.0) (minimum 2 datapoints for OK -> ALARM "
     "transition)."),
    ({"TreatMissingData": "breaching"}, "ALARM", [],
     "Threshold Crossed: no datapoints were received for 2 periods and 2 missing datapoints "
     "were treated as [Breaching]."),
    # Recorded from AWS: tests/servable_local/aws/aws_answers.jsonl.
    ({"EvaluationPeriods": 1}, "ALARM", [70.0],
     "Threshold Crossed: 1 datapoint [70.0 (23/11/26 00:00:00)] was greater than the threshold "
     "(50.0)."),
    ({"EvaluationPeriods": 1}, "INSUFFICIENT_DATA", [],
     "Threshold Crossed: no datapoints were received for 1 period and 1 missing datapoints "
     "were treated as [missing]."),
])  # fmt: skip
def test_a_state_has_its_reason(
    more: dict[str, Any], state: State, values: list[float], reason: str
) -> None:
    assert rule(**more).format_reason(evaluation(state, *values)) == reason


def test_the_data_of_a_reason_are_the_datapoints_and_the_statistic_that_there_are() -> None:
    data = json.loads(rule().format_reason_data(evaluation("ALARM", 60.0, 70.0), Few(3)))
    assert data == {
        "version": "1.0", "queryDate": "2026-11-23T00:05:00.000+0000",
        "startDate": "2026-11-23T00:00:00.000+0000", "statistic": "Average", "period": 60,
        "recentDatapoints": [60.0, 70.0], "threshold": 50.0,
        "evaluatedDatapoints": [
            {"timestamp": "2026-11-23T00:01:00.000+0000", "sampleCount": 3.0, "value": 70.0},
            {"timestamp": "2026-11-23T00:00:00.000+0000", "sampleCount": 3.0, "value": 60.0},
        ],
    }  # fmt: skip
    data = json.loads(rule().format_reason_data(evaluation("OK"), Few(3)))
    assert (data["recentDatapoints"], "startDate" in data) == ([], False)
    of_math = rule(Metrics=[stat("Use", ReturnData=False), expression("use * 2")])
    data = json.loads(of_math.format_reason_data(evaluation("OK", 1.0), Few(3)))
    assert "statistic" not in data
    moment = datetime(2026, 11, 23, 1, 2, 3, 45_999)
    assert format_timestamp(moment) == "2026-11-23T01:02:03.045+0000"


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
