"""How much may be measured, and what is kept back for what comes at the end."""

from servable.tune.search.space import Budget, Measurement, Trial


def trial(seconds: float = 30.0, **about: float) -> Trial:
    return Trial(number=0, point={}, measured=Measurement(value=1.0, about=about), seconds=seconds)


def test_what_comes_at_the_end_is_kept_back() -> None:
    assert Budget(minutes=5).without(4, [trial(30.0)]).minutes == 3.0
    assert Budget(trials=10).without(4, []).trials == 6
    assert Budget(usd=5.0).without(4, [trial(usd=0.5)]).usd == 3.0


def test_a_budget_ends_with_its_time_and_its_dollars() -> None:
    assert Budget(minutes=0.1).seconds_left([trial(30.0)]) == 0.0

    spent = [trial(usd=0.5)]
    ends = [Budget(usd=usd).ended(spent) for usd in (0.9, 1.1)]
    assert [one is not None for one in ends] == [True, False]
