"""The number of parts, found by measuring."""

from collections.abc import Callable

import pytest

from servable_client.part_sizes import PartSizes

ROWS = 500


def after(batches: int, seconds: Callable[[int], float], connections: int = 10) -> PartSizes:
    sizes = PartSizes(connections)
    for _ in range(batches):
        parts = -(-ROWS // sizes.rows(ROWS))
        sizes.record(ROWS, parts, seconds(parts))
    return sizes


def on_workers(workers: int, overhead: float) -> Callable[[int], float]:
    """Seconds of a batch whose parts are served by so many workers side by side."""
    return lambda parts: -(-parts // workers) * (overhead + 1.0 / parts)


@pytest.mark.parametrize(
    ("workers", "overhead", "best"), [(1, 0.01, 1), (4, 0.01, 4), (8, 0.001, 8), (16, 0.9, 16)]
)
def test_the_fastest_number_of_parts_is_found(workers: int, overhead: float, best: int) -> None:
    assert after(30, on_workers(workers, overhead)).parts(ROWS) == best


def test_the_first_batch_is_whole() -> None:
    assert PartSizes(10).rows(ROWS) == ROWS


def test_there_are_never_more_parts_than_rows() -> None:
    sizes = PartSizes(10)
    for _ in range(9):
        sizes.record(3, -(-3 // sizes.rows(3)), 1.0)
    assert sizes.rows(3) >= 1


def test_parts_stay_few_beside_the_connections() -> None:
    assert after(50, lambda parts: 1 / parts, connections=2).parts(ROWS) <= 4


def test_an_endpoint_that_becomes_busy_gets_fewer_parts() -> None:
    sizes = after(30, on_workers(8, 0.001))
    for _ in range(400):
        parts = -(-ROWS // sizes.rows(ROWS))
        sizes.record(ROWS, parts, on_workers(1, 0.05)(parts))
    assert sizes.parts(ROWS) < 8


def test_small_batches_are_measured_apart_from_large_ones() -> None:
    assert after(30, on_workers(8, 0.001)).rows(4) == 4
