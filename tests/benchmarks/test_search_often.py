"""How often a search misses: what is computed from many."""

import pytest

from benchmarks.search.contenders import search_of
from benchmarks.search.crew import Crew
from benchmarks.search.known import known
from benchmarks.search.often import chance, line, main, share


def test_searches_that_all_find_the_best_meet_their_targets() -> None:
    assert chance([1.0] * 60) == 1.0


def test_one_miss_in_a_hundred_is_seen_by_one_twenty_in_five() -> None:
    assert chance([0.8] + [1.0] * 99) == pytest.approx(0.99**20, abs=0.03)


def test_a_low_median_misses_too() -> None:
    assert chance([0.96] * 60) == 0.0


def test_what_is_below_nine_tenths_is_counted() -> None:
    assert "2 of 3 below 90%" in line("plateaus", [0.5, 0.89, 0.9], 0.0)


def test_another_draw_has_other_noise_and_other_starts() -> None:
    surface = known("detector on one GPU", 3)
    one, other = (search_of(surface, 3, 10, draw=draw).trials for draw in (1, 2))
    assert (
        one[0].measured.value != other[0].measured.value,
        [trial.point for trial in one] != [trial.point for trial in other],
    ) == (True, True)


def test_the_same_draw_is_the_same_search() -> None:
    assert len({share(("detector on one GPU", 3, 1, 12)) for _ in range(2)}) == 1


def test_ctrl_c_ends_it_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Crew, "each", pressed)
    assert (main([]), "interrupted" in capsys.readouterr().err) == (130, True)
