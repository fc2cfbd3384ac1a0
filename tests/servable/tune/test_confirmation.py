"""What the measurements at the end say of the choice."""

import pytest

from servable.tune.search.recommended import ChosenPoint, Repeats, choose
from servable.tune.search.space import Space
from servable.tune.search.trial import Measurement, Trial

SPACE = Space({"workers": (1, 2, 4, 8)})
START, BETTER = 0, 3


def trial(point: int, value: float, *, confirms: bool = False) -> Trial:
    measured = Measurement(value=value, failure=None if value else "no ping")
    return Trial(
        number=0, point=SPACE.point(point), measured=measured, seconds=1.0, confirms=confirms
    )


SEARCHED = [trial(START, 100.0), trial(1, 110.0), trial(2, 150.0), trial(BETTER, 200.0)]


def chosen(*again: tuple[int, float]) -> ChosenPoint:
    trials = [*SEARCHED, *(trial(point, value, confirms=True) for point, value in again)]
    found = choose(SPACE, START, trials)
    assert found is not None
    return found


CASES = {
    "nothing was measured again": ((), None),
    "both were, the choice is the better one": (((BETTER, 190.0), (START, 101.0)), True),
    "today's settings are the better ones": (((BETTER, 180.0), (START, 185.0)), False),
    "as good as today's": (((BETTER, 180.0), (START, 180.0)), False),
    "only the choice was": (((BETTER, 190.0),), False),
    "one of both was disturbed": (
        ((BETTER, 60.0), (START, 101.0), (BETTER, 130.0), (START, 99.0)),
        True,
    ),
    "the choice failed once": (
        ((BETTER, 0.0), (START, 101.0), (BETTER, 190.0), (START, 99.0)),
        False,
    ),
}


@pytest.mark.parametrize(("again", "confirmed"), CASES.values(), ids=CASES)
def test_the_choice_is_confirmed_by_what_is_measured_again(
    again: tuple[tuple[int, float], ...], *, confirmed: bool | None
) -> None:
    assert chosen(*again).confirmed is confirmed


def test_what_was_not_confirmed_is_not_kept() -> None:
    assert chosen((BETTER, 180.0), (START, 185.0)).kept == SPACE.point(START)


def test_what_was_confirmed_is_kept() -> None:
    assert chosen((BETTER, 190.0), (START, 101.0)).kept == SPACE.point(BETTER)


def test_repeats_that_differ_most_are_told() -> None:
    assert chosen((BETTER, 210.0), (START, 50.0)).repeats == Repeats(lowest=50.0, highest=100.0)


def test_a_repeat_that_failed_is_the_lowest() -> None:
    assert chosen((BETTER, 210.0), (START, 0.0)).repeats == Repeats(lowest=0.0, highest=100.0)


def test_nothing_measured_twice_has_no_repeats() -> None:
    assert chosen().repeats is None


@pytest.mark.parametrize(("highest", "noisy"), [(130.0, False), (130.1, True)])
def test_repeats_are_noisy_where_they_differ_by_more_than_thirty_percent(
    highest: float, *, noisy: bool
) -> None:
    assert Repeats(lowest=100.0, highest=highest).noisy is noisy


def test_what_is_being_confirmed_stays_the_choice() -> None:
    assert chosen((2, 140.0), (START, 100.0)).point == SPACE.point(2)
