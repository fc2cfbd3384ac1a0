"""A verdict follows from the whole interval, never from the median alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.seeds.claims import NOT_SHOWN, OTHER_WAY, SHOWS, UNDECIDED, Claim, Counts
from benchmarks.tables import Ratio

RATIOS = st.tuples(*[st.floats(0.1, 10)] * 3).map(sorted).map(lambda of: Ratio(of[1], of[0], of[2]))


def claim(found: Ratio | Counts, at_least: float = 1.0, at_most: float | None = None) -> Claim:
    return Claim("S0", "", "", found, at_least=at_least, at_most=at_most)


@given(RATIOS, st.floats(1, 3))
def test_what_shows_reaches_what_is_wanted_with_its_whole_interval(
    found: Ratio, wanted: float
) -> None:
    shows = claim(found, at_least=wanted).verdict == SHOWS
    assert shows == (found.low >= wanted and found.low > 1)


@given(RATIOS)
def test_what_gets_worse_beyond_the_bound_never_shows(found: Ratio) -> None:
    assert (claim(found, at_most=1.05).verdict == SHOWS) == (found.high <= 1.05)


@pytest.mark.parametrize(
    ("low", "high", "wanted", "verdict"),
    [
        (1.2, 1.4, 1.0, SHOWS),
        (0.9, 1.4, 1.0, NOT_SHOWN),
        (0.6, 0.8, 1.0, OTHER_WAY),
        (1.5, 1.9, 1.67, UNDECIDED),
        (1.2, 1.5, 1.67, NOT_SHOWN),
    ],
)
def test_the_five_places_of_an_interval(
    low: float, high: float, wanted: float, verdict: str
) -> None:
    assert claim(Ratio((low + high) / 2, low, high), at_least=wanted).verdict == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.9, 1.04, SHOWS), (1.0, 1.2, UNDECIDED), (1.1, 1.2, NOT_SHOWN)]
)
def test_the_three_places_of_an_interval_that_may_not_get_worse(
    low: float, high: float, verdict: str
) -> None:
    assert claim(Ratio(1.0, low, high), at_most=1.05).verdict == verdict


def test_counts_are_compared_as_they_are() -> None:
    assert [claim(Counts(ours, 5)).verdict for ours in (5, 6)] == [NOT_SHOWN, SHOWS]
