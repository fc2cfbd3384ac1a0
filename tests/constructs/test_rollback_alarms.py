"""Rollback alarms on errors: which there are, and which fleets' requests make them fire."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_scaling.alarms.query import Expression
from tests.conftest import VALID
from tests.constructs.conftest import Synthesise, Synthesised

THRESHOLDS = "[alarms]\nerror_4xx_percent = 5\nmodel_error_percent = 5\n"
TWO = VALID + "min_instances = 2\nmax_instances = 2\n" + THRESHOLDS
CANARY = TWO + '[rollout]\nstrategy = "canary"\ncanary_percent = 50\n'
AT_ONCE = TWO + '[rollout]\nstrategy = "all_at_once"\n'
Fleet = tuple[int, int]
"""(requests, errors)"""
NONE = (0, 0)


def alarms(found: Synthesised) -> dict[str, dict[str, Any]]:
    """{kind: rollback alarm}, such as primary-4xx."""
    prefix = "ranker-rollback-"
    return {
        alarm["AlarmName"].removeprefix(prefix).rpartition("-")[0]: alarm
        for alarm in found.all("AWS::CloudWatch::Alarm")
        if alarm["AlarmName"].startswith(prefix)
    }


def fires(alarm: dict[str, Any], *, old: Fleet, new: Fleet, per_configuration: bool = True) -> bool:
    """Whether a minute breaches the threshold, with (requests, errors) of each fleet.

    `per_configuration`: SageMaker publishes errors of the new fleet alone, as it does latency.
    """
    (expression,) = [one["Expression"] for one in alarm["Metrics"] if "Expression" in one]
    published = new[0] > 0 and per_configuration
    values = {
        "requests": float(old[0] + new[0]) or None,
        "errors": float(old[1] + new[1]) if old[0] + new[0] else None,
        "new_requests": float(new[0]) if published else None,
        "new_errors": float(new[1]) if published else None,
        "new_answers": float(new[0]) or None,
    }
    value = Expression(expression).compute_value(values)
    return value is not None and value > alarm["Threshold"]


@pytest.mark.long
def test_sagemaker_reads_ten_alarms_and_4xx_are_left_out_on_request(synthesise: Synthesise) -> None:
    left_out = synthesise(CANARY + "rollback_on_4xx = false\n")
    assert list(alarms(left_out)) == ["primary-5xx"]
    text = CANARY.replace("[alarms]\n", "[alarms]\np99_latency_ms = 100\n")
    for name in ("b", "c"):
        text += f'[variants.{name}]\nmodel = "ranker"\ninstance_type = "ml.c5.xlarge"\n'
        text += "min_instances = 2\nmax_instances = 2\n"
    found = synthesise(text)
    config = found.one("AWS::SageMaker::Endpoint")["DeploymentConfig"]
    watched = [one["AlarmName"]["Ref"] for one in config["AutoRollbackConfiguration"]["Alarms"]]
    names = [found.template["Resources"][one]["Properties"]["AlarmName"] for one in watched]
    assert names == [alarm["AlarmName"] for alarm in alarms(found).values()]
    # Of b and c, 4xx would be the eleventh and twelfth.
    assert list(alarms(found)) == [
        *("primary-5xx", "primary-latency", "b-5xx", "b-latency", "c-5xx", "c-latency"),
        *("primary-model-errors", "b-model-errors", "c-model-errors", "primary-4xx"),
    ]


def test_a_failing_new_fleet_fires_and_an_old_one_if_not_told_apart(synthesise: Synthesise) -> None:
    found = alarms(synthesise(CANARY))
    for published in [True, False]:
        for kind in ["primary-5xx", "primary-4xx", "primary-model-errors"]:
            assert fires(found[kind], old=(90, 0), new=(10, 10), per_configuration=published)
        errors = found["primary-5xx"]
        assert not fires(errors, old=(90, 90), new=NONE, per_configuration=published)
        apart = fires(errors, old=(50, 50), new=(50, 0), per_configuration=published)
        assert apart is not published


@pytest.mark.long
def test_4xx_without_an_old_fleet_count_against_the_threshold(synthesise: Synthesise) -> None:
    """With one: test_of_4xx_only_what_is_beyond_the_old_fleets_share_counts."""
    assert not fires(alarms(synthesise(CANARY))["primary-4xx"], old=NONE, new=(100, 33))
    for text in [AT_ONCE, CANARY.replace("instances = 2", "instances = 1")]:
        assert fires(alarms(synthesise(text))["primary-4xx"], old=NONE, new=(100, 33))


FLEET = st.integers(0, 1000).flatmap(
    lambda requests: st.tuples(st.just(requests), st.integers(0, requests))
)


def test_of_5xx_only_the_new_fleets_share_counts(synthesise: Synthesise) -> None:
    alarm = alarms(synthesise(CANARY))["primary-5xx"]

    @given(old=FLEET, new=FLEET)
    def holds(old: Fleet, new: Fleet) -> None:
        assert fires(alarm, old=old, new=new) is (new[0] > 0 and new[1] / new[0] > 0.01)

    holds()


@pytest.mark.long
def test_of_4xx_only_what_is_beyond_the_old_fleets_share_counts(synthesise: Synthesise) -> None:
    alarm = alarms(synthesise(CANARY))["primary-4xx"]

    @given(old=FLEET, new=FLEET)
    def holds(old: Fleet, new: Fleet) -> None:
        both = old[0] > 0 and new[0] > 0
        beyond = both and new[1] / new[0] - old[1] / old[0] > 0.05
        assert fires(alarm, old=old, new=new) is beyond

    holds()
    for errors, fired in [(35, False), (36, True)]:
        assert fires(alarm, old=(900, 270), new=(100, errors)) is fired


def test_errors_are_counted_as_often_as_they_are_published(synthesise: Synthesise) -> None:
    often = "[metrics]\nenhanced_metrics = true\npublish_seconds = 10\n"
    alarm = alarms(synthesise(CANARY + often))["primary-5xx"]
    metrics = [each["MetricStat"] for each in alarm["Metrics"] if "MetricStat" in each]
    assert {each["Period"] for each in metrics} == {10}
    assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (18, 10)
