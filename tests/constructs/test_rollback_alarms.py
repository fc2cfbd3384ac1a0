"""Rollback alarms on errors: which there are, and which fleets' requests make them fire."""

from collections.abc import Callable
from typing import Any

import pytest
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
    value = Expression(expression).value(values)
    return value is not None and value > alarm["Threshold"]


@pytest.mark.parametrize("key", ["error_4xx_percent", "model_error_percent"])
def test_a_threshold_that_is_set_rolls_an_update_back(synthesise: Synthesise, key: str) -> None:
    kind = {"error_4xx_percent": "primary-4xx", "model_error_percent": "primary-model-errors"}[key]
    text = CANARY.replace(THRESHOLDS, f"[alarms]\n{key} = 5\n")
    assert list(alarms(synthesise(text))) == ["primary-5xx", kind]


def test_rollback_on_4xx_false_leaves_5xx_alone(synthesise: Synthesise) -> None:
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


@pytest.mark.parametrize("kind", ["primary-5xx", "primary-4xx", "primary-model-errors"])
@pytest.mark.parametrize("text", [CANARY, AT_ONCE], ids=["canary", "all_at_once"])
def test_cloudwatch_takes_its_metrics(synthesise: Synthesise, text: str, kind: str) -> None:
    """At most ten metrics, of one period.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_MetricDataQuery.html (2026-11-23)
    """
    metrics = [
        one["MetricStat"]
        for one in alarms(synthesise(text))[kind]["Metrics"]
        if "MetricStat" in one
    ]
    assert (len(metrics) <= 10, {one["Period"] for one in metrics}) == (True, {60})


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("kind", ["primary-5xx", "primary-4xx", "primary-model-errors"])
def test_a_new_fleet_that_fails_fires(synthesise: Synthesise, kind: str, published: bool) -> None:
    alarm = alarms(synthesise(CANARY))[kind]
    assert fires(alarm, old=(90, 0), new=(10, 10), per_configuration=published)


@pytest.mark.parametrize("published", [True, False])
def test_before_the_new_fleet_answers_the_old_fleets_errors_do_not_count(
    synthesise: Synthesise, published: bool
) -> None:
    alarm = alarms(synthesise(CANARY))["primary-5xx"]
    assert not fires(alarm, old=(90, 90), new=NONE, per_configuration=published)


def test_errors_of_the_old_fleet_alone_do_not_count(synthesise: Synthesise) -> None:
    assert not fires(alarms(synthesise(CANARY))["primary-5xx"], old=(50, 50), new=(50, 0))


def test_errors_that_are_not_published_by_configuration_count_whichever_fleet_made_them(
    synthesise: Synthesise,
) -> None:
    alarm = alarms(synthesise(CANARY))["primary-5xx"]
    assert fires(alarm, old=(50, 50), new=(50, 0), per_configuration=False)


def test_a_fleet_that_refuses_as_much_as_the_old_one_does_not_fire(synthesise: Synthesise) -> None:
    assert not fires(alarms(synthesise(CANARY))["primary-4xx"], old=(900, 300), new=(100, 33))


@pytest.mark.parametrize(("errors", "fired"), [(35, False), (36, True)])
def test_4xx_count_beyond_the_old_fleets_percentage(
    synthesise: Synthesise, errors: int, fired: bool
) -> None:
    alarm = alarms(synthesise(CANARY))["primary-4xx"]
    assert fires(alarm, old=(900, 270), new=(100, errors)) is fired


def test_after_a_canary_with_all_traffic_on_the_new_fleet_4xx_are_not_judged_again(
    synthesise: Synthesise,
) -> None:
    assert not fires(alarms(synthesise(CANARY))["primary-4xx"], old=NONE, new=(100, 33))


@pytest.mark.parametrize("text", [AT_ONCE, CANARY.replace("instances = 2", "instances = 1")])
def test_without_an_old_fleet_beside_it_the_threshold_alone_decides(
    synthesise: Synthesise, text: str
) -> None:
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
