"""The surfaces that judge the search."""

import pytest

from benchmarks.search.surfaces import FAMILIES, RETRIEVAL_ROWS, RetrievalFormula

SETTINGS = (
    "gunicorn_workers",
    "tfs_processes",
    "omp_threads",
    "inter_op_threads",
    "intra_op_threads",
)


@pytest.mark.parametrize("row", RETRIEVAL_ROWS)
def test_the_retrieval_surface_is_within_a_tenth_of_what_was_published(
    row: tuple[int, int, int, int, int],
) -> None:
    point = {**dict(zip(SETTINGS, row, strict=True)), "onednn": False}
    assert RetrievalFormula().rps(point) == pytest.approx(RETRIEVAL_ROWS[row], rel=0.1)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_grid_has_at_least_500_points(family: str) -> None:
    assert len(FAMILIES[family](0).space) >= 500


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_gives_the_same_surface_twice(family: str) -> None:
    assert FAMILIES[family](7).values.tolist() == FAMILIES[family](7).values.tolist()
