"""Who is next, in proportion to weights."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from servable_local.aws.sagemaker.fleet import Turns

WEIGHTS = st.dictionaries(
    st.sampled_from("abcd"), st.integers(0, 10).map(float), min_size=1
).filter(lambda weights: any(weights.values()))


def _order(weights: dict[str, float], count: int) -> list[str]:
    turns = Turns()
    return [turns.next(weights) for _ in range(count)]


@given(WEIGHTS)
def test_one_round_has_exactly_the_weights_in_the_same_order(weights: dict[str, float]) -> None:
    found = Counter(_order(weights, int(sum(weights.values()))))
    assert found == Counter({name: int(weight) for name, weight in weights.items()})
    assert _order(weights, 30) == _order(weights, 30)


def test_turns_are_mixed_equal_and_may_change() -> None:
    order = _order({"a": 1.0, "b": 1.0}, 10)
    assert all(one != other for one, other in pairwise(order))
    assert Counter(_order({"a": 0.0, "b": 0.0}, 10)) == {"a": 5, "b": 5}

    turns = Turns()
    for _ in range(10):
        turns.next({"new": 0.1, "old": 0.9})
    assert {turns.next({"new": 1.0, "old": 0.0}) for _ in range(10)} == {"new"}
