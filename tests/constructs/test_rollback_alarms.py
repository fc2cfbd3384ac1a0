"""Rollback alarms on errors: which there are, and which fleets' requests make them fire."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from servable_scaling.alarms.query import Expression
from tests.conftest import VALID
from tests.constructs.conftest import Synthesised

Synthesise = Callable[..., Synthesised]
THRESHOLDS = "[alarms]\nerror_4xx_percent = 5\nmodel_error_percent = 5\n"
TWO = VALID + "min_instances = 2\nmax_instances = 2\n" + THRESHOLDS
CANARY = TWO + '[rollout]\nstrategy = "canary"\ncanary_percent = 50\n'
AT_ONCE = TWO + '[rollout]\nstrategy = "all_at_once"\n'
NONE = (0, 0)
"""(requests, errors) of a fleet without traffic."""


def alarms(found: Synthesised) -> dict[str, dict[str, Any]]:
    """{kind: rollback alarm}, such as primary-4xx."""
    prefix = "ranker-rollback-"
    return {
        alarm["AlarmName"].removeprefix(prefix).rpartition("-")[0]: alarm
        for alarm in found.all("AWS::CloudWatch::Alarm")
        if alarm["AlarmName"].startswith(prefix)
    }


def fires(
    alarm: dict[str, Any],
    *,
    old: tuple[int, int],
    new: tuple[int, int],
    per_configuration: bool = True,
) -> bool:
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


def test_a_threshold_that_is_set_rolls_an_update_back_unless_4xx_are_left_out(
    synthesise: Synthesise,
) -> None:
    for key in ["error_4xx_percent", "model_error_percent"]:
        kind = {"error_4xx_percent": "primary-4xx", "model_error_percent": "primary-model-errors"}[
            key
        ]
        text = CANARY.replace(THRESHOLDS, f"[alarms]\n{key} = 5\n")
        assert list(alarms(synthesise(text))) == ["primary-5xx", kind]
    assert list(alarms(synthesise(CANARY + "rollback_on_4xx = false\n"))) == ["primary-5xx"]


def test_every_rollback_alarm_is_read_by_sagemaker(synthesise: Synthesise) -> None:
    found = synthesise(CANARY)
    config = found.one("AWS::SageMaker::Endpoint")["DeploymentConfig"]
    watched = [one["AlarmName"]["Ref"] for one in config["AutoRollbackConfiguration"]["Alarms"]]
    names = [found.template["Resources"][one]["Properties"]["AlarmName"] for one in watched]
    assert names == [alarm["AlarmName"] for alarm in alarms(found).values()]


def test_the_eleventh_alarm_is_left_out(synthesise: Synthesise) -> None:
    text = CANARY.replace("[alarms]\n", "[alarms]\np99_latency_ms = 100\n")
    for name in ("b", "c"):
        text += f'[variants.{name}]\nmodel = "ranker"\ninstance_type = "ml.c5.xlarge"\n'
        text += "min_instances = 2\nmax_instances = 2\n"
    assert list(alarms(synthesise(text))) == [
        *("primary-5xx", "primary-latency", "b-5xx", "b-latency", "c-5xx", "c-latency"),
        *("primary-model-errors", "b-model-errors", "c-model-errors", "primary-4xx"),
    ]


def test_cloudwatch_takes_its_metrics(synthesise: Synthesise) -> None:
    """At most ten metrics, of one period.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_MetricDataQuery.html (2026-11-23)
    """
    for kind in ["primary-5xx", "primary-4xx", "primary-model-errors"]:
        for text in [CANARY, AT_ONCE]:
            metrics = [
                one["MetricStat"]
                for one in alarms(synthesise(text))[kind]["Metrics"]
                if "MetricStat" in one
            ]
            assert (len(metrics) <= 10, {one["Period"] for one in metrics}) == (True, {60})


def test_a_new_fleet_that_fails_fires(synthesise: Synthesise) -> None:
    for published in [True, False]:
        for kind in ["primary-5xx", "primary-4xx", "primary-model-errors"]:
            alarm = alarms(synthesise(CANARY))[kind]
            assert fires(alarm, old=(90, 0), new=(10, 10), per_configuration=published)


def test_errors_of_the_old_fleet_count_if_not_told_apart(synthesise: Synthesise) -> None:
    for published in [True, False]:
        alarm = alarms(synthesise(CANARY))["primary-5xx"]
        assert not fires(alarm, old=(90, 90), new=NONE, per_configuration=published)

    assert not fires(alarms(synthesise(CANARY))["primary-5xx"], old=(50, 50), new=(50, 0))
    alarm = alarms(synthesise(CANARY))["primary-5xx"]
    assert fires(alarm, old=(50, 50), new=(50, 0), per_configuration=False)


def test_4xx_count_beyond_the_old_fleets_percentage_or_without_one_the_threshold(
    synthesise: Synthesise,
) -> None:
    assert not fires(alarms(synthesise(CANARY))["primary-4xx"], old=(900, 300), new=(100, 33))
    assert not fires(alarms(synthesise(CANARY))["primary-4xx"], old=NONE, new=(100, 33))
    for errors, fired in [(35, False), (36, True)]:
        alarm = alarms(synthesise(CANARY))["primary-4xx"]
        assert fires(alarm, old=(900, 270), new=(100, errors)) is fired
    for text in [AT_ONCE, CANARY.replace("instances = 2", "instances = 1")]:
        assert fires(alarms(synthesise(text))["primary-4xx"], old=NONE, new=(100, 33))


FLEET = st.integers(0, 1000).flatmap(
    lambda requests: st.tuples(st.just(requests), st.integers(0, requests))
)


def test_of_5xx_only_the_new_fleets_share_counts(synthesise: Synthesise) -> None:
    alarm = alarms(synthesise(CANARY))["primary-5xx"]

    @given(old=FLEET, new=FLEET)
    def holds(old: tuple[int, int], new: tuple[int, int]) -> None:
        assert fires(alarm, old=old, new=new) is (new[0] > 0 and new[1] / new[0] > 0.01)

    holds()


def test_of_4xx_only_what_is_beyond_the_old_fleets_share_counts(synthesise: Synthesise) -> None:
    alarm = alarms(synthesise(CANARY))["primary-4xx"]

    @given(old=FLEET, new=FLEET)
    def holds(old: tuple[int, int], new: tuple[int, int]) -> None:
        both = old[0] > 0 and new[0] > 0
        beyond = both and new[1] / new[0] - old[1] / old[0] > 0.05
        assert fires(alarm, old=old, new=new) is beyond

    holds()


def test_errors_are_counted_as_often_as_they_are_published(synthesise: Synthesise) -> None:
    often = "[metrics]\nenhanced_metrics = true\npublish_seconds = 10\n"
    for text, period, window in [(CANARY, 60, (3, 3)), (CANARY + often, 10, (18, 10))]:
        alarm = alarms(synthesise(text))["primary-5xx"]
        periods = {
            each["MetricStat"]["Period"] for each in alarm["Metrics"] if "MetricStat" in each
        }
        assert periods == {period}
        assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == window
