"""The number of parts, found by measuring."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servable_client.split import ASK_AGAIN_EVERY, MEASUREMENTS, PartSizes

ROWS = 500
CONNECTIONS = 10
LEARNING = MEASUREMENTS * 6  # 1, 2, 4, 8, 10 and 20 parts

Seconds = Callable[[int], float]


def asked(sizes: PartSizes, batches: int, seconds: Seconds, rows: int = ROWS) -> list[int]:
    """The numbers of parts of so many batches."""
    counts = []
    for _ in range(batches):
        counts.append(sizes.choose_part_count(rows))
        sizes.record(rows, counts[-1], seconds(counts[-1]))
    return counts


def after(batches: int, seconds: Seconds, connections: int = CONNECTIONS) -> PartSizes:
    sizes = PartSizes(connections)
    asked(sizes, batches, seconds)
    return sizes


def on_cores(cores: int, overhead: float) -> Seconds:
    """Seconds of a batch whose parts are computed by so many cores, as many at a time as connections."""

    def seconds(parts: int) -> float:
        rounds = -(-parts // min(cores, CONNECTIONS))
        return rounds * (overhead + -(-ROWS // parts) / ROWS)

    return seconds


def test_the_fastest_number_of_parts_is_found_and_small_batches_are_not_split() -> None:
    for cores, overhead, best in [(1, 0.01, 1), (4, 0.01, 4), (8, 0.001, 8), (16, 0.001, 10)]:
        assert after(LEARNING, on_cores(cores, overhead)).choose_part_count(ROWS) == best
    assert PartSizes(CONNECTIONS).choose_part_count(ROWS) == 1
    assert after(LEARNING, lambda parts: 1.0 if parts == 1 else 0.985).choose_part_count(ROWS) == 1
    assert after(LEARNING, on_cores(8, 0.001)).choose_part_count(4) == 1


@example(
    cores=2, overhead=0.515625, hiccups=[0] * 6, times=1.0,
    jitter=[1.0] * (LEARNING - 3) + [1.0078125] * 3,
)  # fmt: skip
@given(
    cores=st.integers(1, 40),
    overhead=st.floats(0, 2),
    hiccups=st.lists(st.integers(0, MEASUREMENTS - 1), min_size=6, max_size=6),
    times=st.floats(1, 10),
    jitter=st.lists(st.floats(0.99, 1.01), min_size=LEARNING, max_size=LEARNING),
)
def test_after_learning_the_choice_is_as_fast_as_whole_and_as_a_part_for_each_connection(
    cores: int, overhead: float, hiccups: list[int], times: float, jitter: list[float]
) -> None:
    """Within 5 %, though each number of parts has one slow moment and all of them scatter by 1 %."""
    true, seen, noise = (
        on_cores(cores, overhead), dict.fromkeys((1, 2, 4, 8, 10, 20), 0), itertools.cycle(jitter),
    )  # fmt: skip

    def measured(parts: int) -> float:
        slow = times if seen[parts] == hiccups[list(seen).index(parts)] else 1
        seen[parts] += 1
        return true(parts) * slow * next(noise)

    # A number at the border of what is worth trying may be measured for the first time only now.
    choices = asked(after(LEARNING, measured), 3 * MEASUREMENTS, measured)
    assert true(max(choices, key=choices.count)) <= 1.05 * min(true(1), true(CONNECTIONS))


@pytest.mark.long
@given(
    cores=st.integers(1, 40),
    overhead=st.floats(0, 2),
    batches=st.integers(10 * ASK_AGAIN_EVERY, 40 * ASK_AGAIN_EVERY),
)
def test_measuring_neighbours_again_costs_at_most_five_percent_of_the_time(
    cores: int, overhead: float, batches: int
) -> None:
    seconds = on_cores(cores, overhead)
    counts = asked(after(LEARNING, seconds), batches, seconds)
    best = min(map(seconds, counts))
    assert sum(map(seconds, counts)) <= 1.05 * best * batches


@pytest.mark.long
@given(rows=st.integers(1, 60), connections=st.integers(1, 40))
def test_learning_ends_for_any_number_of_rows_and_connections(rows: int, connections: int) -> None:
    sizes = PartSizes(connections)
    asked(sizes, MEASUREMENTS * 8, lambda parts: 1 / parts, rows)
    counts = asked(sizes, 10 * ASK_AGAIN_EVERY, lambda parts: 1 / parts, rows)
    assert max(map(counts.count, counts)) >= 0.95 * len(counts)


@given(rows=st.integers(0, 60), connections=st.integers(1, 40), batches=st.integers(0, 40))
def test_there_are_never_more_parts_than_rows_or_than_two_for_each_connection(
    rows: int, connections: int, batches: int
) -> None:
    counts = asked(PartSizes(connections), batches, lambda parts: 1 / parts, rows)
    assert all(1 <= count <= max(1, min(rows, 2 * connections)) for count in counts)


def test_numbers_of_parts_are_measured_in_turn_and_follow_the_endpoint() -> None:
    assert asked(PartSizes(4), 8, lambda parts: 1 / parts) == [1, 2, 4, 8, 1, 2, 4, 8]
    assert set(asked(PartSizes(CONNECTIONS), LEARNING, lambda parts: parts)) == {1, 2}
    sizes = after(LEARNING, on_cores(8, 0.001))
    asked(sizes, 400, on_cores(1, 0.05))
    assert sizes.choose_part_count(ROWS) < 8
    sizes = after(LEARNING, on_cores(1, 0.2))
    asked(sizes, 1000, on_cores(8, 0.001))
    assert sizes.choose_part_count(ROWS) > 1
