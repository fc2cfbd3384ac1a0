"""What the minutes of a search are spent on, said before they are."""

import dataclasses

from servable.tune.tune import TimePlan

# 2.5 load curves of 48 s are two minutes, and nine trials of 20 s three.
PLAN = TimePlan(minutes=5, curve_seconds=48, trial_seconds=20, confirm=4, trials=40)


def test_what_the_load_curves_leave_is_for_trials() -> None:
    assert PLAN.fit == 9
    assert PLAN.refusal is None


def test_too_few_minutes_are_refused_with_those_that_would_do() -> None:
    shorter = dataclasses.replace(PLAN, minutes=4.9)
    assert (shorter.refusal or "").endswith("give --minutes 5 or more")
    assert dataclasses.replace(PLAN, minutes=4, trials=6).refusal is None

    short = TimePlan(minutes=1, curve_seconds=61, trial_seconds=23, confirm=4, trials=40)
    asked = int((short.refusal or "").split("--minutes ")[1].split()[0])
    assert dataclasses.replace(short, minutes=asked).refusal is None


def test_its_text_is_one_sentence_whose_total_is_the_sum_of_its_parts() -> None:
    fewer = dataclasses.replace(PLAN, minutes=9.5, trials=5)
    # Two load curves of 48 s and five trials of 20 s.
    assert str(fewer).startswith("about 3.3 minutes, at most 9.5: two load curves of about 48 s")
    for part in ["at most 5:", "about 48 s", "about 9 trials of about 20 s"]:
        assert part in str(PLAN)
