"""Days with nights, rehearsed beside an event simulation that knows none of our code."""

import pytest

from tests.servable_scaling.rehearsal.sleep_days import EXACT, compared, drawn

# The first days of a seed, whatever they are.
DAYS, DRAWS = 5, 4


@pytest.fixture(scope="module")
def beside() -> list[dict[str, dict[str, float]]]:
    return [compared(drawn(0, number), DRAWS) for number in range(DAYS)]


@pytest.mark.parametrize("name", ["hours", "waiting", "awake"])
def test_days_with_and_without_sleep_are_those_of_the_event_simulation(
    name: str, beside: list[dict[str, dict[str, float]]]
) -> None:
    ours = [day[name]["rehearsed"] for day in beside]
    assert ours == pytest.approx([day[name]["simulated"] for day in beside], rel=EXACT)


def test_callers_who_give_up_are_those_of_the_event_simulation(
    beside: list[dict[str, dict[str, float]]],
) -> None:
    ours, theirs = (
        sum(day["gave up"][whose] for day in beside) for whose in ("rehearsed", "simulated")
    )
    assert ours == pytest.approx(theirs, rel=EXACT)
