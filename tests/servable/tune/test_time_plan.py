"""What the minutes of a search are spent on, said before they are."""

import dataclasses

import pytest

from servable.tune.tune import TimePlan

# 2.5 load curves of 48 s are two minutes, and nine trials of 20 s three.
PLAN = TimePlan(minutes=5, curve_seconds=48, trial_seconds=20, confirm=4, trials=40)


def test_what_the_load_curves_leave_is_for_trials() -> None:
    assert PLAN.fit == 9


def test_five_trials_and_the_confirmation_are_a_comparison() -> None:
    assert PLAN.refusal is None


def test_fewer_are_refused_with_the_minutes_that_would_do() -> None:
    shorter = dataclasses.replace(PLAN, minutes=4.9)
    assert (shorter.refusal or "").endswith("give --minutes 5 or more")


def test_whoever_wants_fewer_trials_needs_less_time() -> None:
    assert dataclasses.replace(PLAN, minutes=4, trials=6).refusal is None


def test_the_minutes_asked_for_are_enough() -> None:
    short = TimePlan(minutes=1, curve_seconds=61, trial_seconds=23, confirm=4, trials=40)
    asked = int((short.refusal or "").split("--minutes ")[1].split()[0])
    assert dataclasses.replace(short, minutes=asked).refusal is None


def test_its_heading_is_the_sum_of_its_parts_and_then_the_most() -> None:
    fewer = dataclasses.replace(PLAN, minutes=9.5, trials=5)
    # Two load curves of 48 s and five trials of 20 s.
    assert str(fewer).startswith("about 3.3 minutes, at most 9.5: two load curves of about 48 s")


@pytest.mark.parametrize("part", ["at most 5:", "about 48 s", "about 9 trials of about 20 s"])
def test_it_is_one_sentence(part: str) -> None:
    assert part in str(PLAN)
