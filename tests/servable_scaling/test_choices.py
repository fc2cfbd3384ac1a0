"""What AWS does not publish is a setting with a default: the defaults, and what was changed."""

from servable_scaling.choices import CHOSEN, OBSERVED, ScalingChoices, rows


def test_nothing_is_changed_by_default() -> None:
    assert ScalingChoices().changed() == {}


def test_what_is_not_the_default_is_named() -> None:
    choices = ScalingChoices(high_datapoints=3, low_datapoints=5, rate_from="creation")
    assert choices.changed() == {"low_datapoints": 5, "rate_from": "creation"}


# As seen in exported alarms of target tracking: 3 minutes above it, 15 below 90 % of it.
def test_what_was_observed_is_marked() -> None:
    observed = {name.strip("`"): default for name, default, kind, _ in rows() if kind == OBSERVED}
    assert observed == {
        "high_datapoints": "3",
        "low_datapoints": "15",
        "low_threshold_share": "0.9",
        "scaling_updates_endpoint": "True",
    }


def test_choices_of_ours_have_these_defaults() -> None:
    chosen = {name.strip("`"): default for name, default, kind, _ in rows() if kind == CHOSEN}
    assert chosen == {
        "high_resolution_seconds": "10",
        "metric_delay_seconds": "0",
        "tracking_datapoints": "1",
        "concurrency_statistic": "Average",
        "step_datapoints": "None",
        "scale_in_percent": "10.0",
        "tracking_leaves_zero": "True",
        "out_cooldown_of": "policy",
        "unscalable_schedule_sets_bounds": "False",
        "rate_from": "start_time",
        "skipped_local_time": "skipped",
        "repeated_local_time": "once",
    }
