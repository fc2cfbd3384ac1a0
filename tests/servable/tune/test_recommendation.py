"""What follows from a measurement, and what does not when it was made on this computer."""

import dataclasses

import pytest

from servable.load.measurement import MeasuredTarget
from servable.load.objective import Knee
from servable.measured.precision import Interval, Latencies
from servable.tune.recommendation import Recommendation, headline, recommend
from servable.tune.search.recommended import ChosenPoint, Confirmation, Effect
from tests.servable.tune.example_content import ENVIRONMENT, OBJECTIVE, interval

ASKED = MeasuredTarget(
    target="local", address="", started_at="2026-11-21T12:00:00Z", machine="2 cores"
)
IN_AWS = dataclasses.replace(ASKED, target="sagemaker", instance_type="ml.c5.xlarge")
CHOICE = ChosenPoint(
    point={"tfs_processes": 4, "gunicorn_workers": 8, "batching.max_batch_size": 64},
    value=100.0,
    start={"tfs_processes": 1, "gunicorn_workers": 8, "batching.max_batch_size": 8},
    noise=0.05,
    confirmation=Confirmation(pairs=6, gain=Interval(value=0.2, low=0.1, high=0.3)),
)

UNSURE = dataclasses.replace(
    CHOICE,
    confirmation=Confirmation(pairs=7, gain=Interval(value=0.05, low=-0.02, high=0.12), needed=19),
)
EFFECTS = {
    "tfs_processes": (Effect(value=1, relative=Interval(value=0.7, low=0.6, high=0.8)),),
    "batching.max_batch_size": (Effect(value=8, relative=Interval(value=1.0, low=0.9, high=1.1)),),
}


def recommended(
    asked: MeasuredTarget = ASKED, choice: ChosenPoint = CHOICE, *, force: bool = False
) -> Recommendation:
    return recommend(
        ENVIRONMENT,
        "primary",
        asked=asked,
        choice=choice,
        effects=EFFECTS,
        knee=Knee(objective=OBJECTIVE, load=interval(8), rps=interval(100.0), bounded=True),
        latencies=Latencies.of([*[10.0] * 89, *[40.0] * 9, *[87.3] * 2]),
        force_local_numbers=force,
    )


def _keys(found: Recommendation) -> dict[str, object]:
    return {".".join(change.key): change.value for change in found.changes}


def test_only_settings_that_change_are_written() -> None:
    assert _keys(recommended()) == {
        "variants.primary.container.tfs_processes": 4,
        "variants.primary.container.batching.max_batch_size": 64,
    }


def test_settings_that_are_not_shown_to_be_better_are_not_written() -> None:
    assert not recommended(choice=UNSURE).changes


def test_on_another_instance_type_every_setting_is_written() -> None:
    moved = dataclasses.replace(
        CHOICE,
        point={**CHOICE.point, "instance_type": "ml.c5.4xlarge"},
        start={**CHOICE.start, "instance_type": "ml.c5.xlarge"},
    )
    assert _keys(recommended(choice=moved)) == {
        "variants.primary.instance_type": "ml.c5.4xlarge",
        "variants.primary.container.tfs_processes": 4,
        "variants.primary.container.gunicorn_workers": 8,
        "variants.primary.container.batching.max_batch_size": 64,
    }


@pytest.mark.parametrize("prefix", ["variants.primary.scaling", "alarms", "rollout"])
def test_a_local_measurement_sets_nothing_that_depends_on_the_machine(prefix: str) -> None:
    assert not [key for key in _keys(recommended()) if key.startswith(prefix)]


def test_what_a_local_measurement_does_not_set_is_said() -> None:
    assert recommended().withheld


def test_forced_it_sets_them() -> None:
    assert "variants.primary.scaling.max_rps_per_instance" in _keys(recommended(force=True))


def test_the_scaling_number_is_the_low_end_of_what_was_measured() -> None:
    assert _keys(recommended(IN_AWS))["variants.primary.scaling.max_rps_per_instance"] == 98.0


def test_the_scaling_target_is_awss_formula() -> None:
    assert recommended(IN_AWS).scaling_target_per_minute == 100 * 0.5 * 60


def test_instances_carry_the_peak_with_safety() -> None:
    # 1000 requests/s over 98 x 0.5.
    assert _keys(recommended(IN_AWS))["variants.primary.max_instances"] == 21


def test_the_least_instances_carry_the_quiet_hour() -> None:
    assert _keys(recommended(IN_AWS))["variants.primary.min_instances"] == 1


def test_an_alarms_threshold_is_the_measured_percentile_rounded_up() -> None:
    assert _keys(recommended(IN_AWS))["alarms.p99_latency_ms"] == 88.0


def test_a_bake_outlasts_the_alarms_window_and_the_metrics_delay() -> None:
    # 500 requests of a tenth of 20 a second: five minutes; the alarm needs three and two.
    assert _keys(recommended(IN_AWS))["rollout.bake_minutes"] == 6


def test_each_key_says_what_going_back_to_today_would_do() -> None:
    reasons = {change.key[-1]: change.reason for change in recommended().changes}
    assert reasons == {
        "tfs_processes": "with 1 as today, the others as chosen: -30% (-40% to -20%)",
        "max_batch_size": (
            "with 8 as today, the others as chosen: +0% (-10% to +10%); not shown by itself"
        ),
    }


def test_the_effect_of_all_keys_together_is_said_once() -> None:
    assert headline(CHOICE, "throughput") == (
        "The chosen settings together are better than today's: "
        "+20.0% requests/s, 95 % interval +10.0% to +30.0%."
    )


REFUTED = dataclasses.replace(CHOICE, confirmation=Confirmation(pairs=1, refuted=True))


def test_what_failed_when_measured_again_is_not_recommended() -> None:
    assert not recommended(choice=REFUTED).changes


def test_what_failed_when_measured_again_is_said() -> None:
    assert "when they were measured again" in headline(REFUTED, "throughput")


def test_a_difference_that_was_not_shown_is_said_with_its_size() -> None:
    assert headline(UNSURE, "throughput").startswith(
        "Today's settings stay: no difference above 12.0% was shown (the best of the others: +5.0% "
    )


def test_what_cannot_be_told_says_how_many_pairs_more_would_tell() -> None:
    said = headline(UNSURE, "throughput")
    assert "12 more would tell; end other programs, or give --new and 2.8 times the trials" in said


def test_too_few_trials_to_compare_anything_are_said() -> None:
    none = dataclasses.replace(CHOICE, confirmation=Confirmation())
    assert "too few trials were left to compare" in headline(none, "throughput")
