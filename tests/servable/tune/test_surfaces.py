"""The surfaces that judge the search."""

import pytest

from benchmarks.search import surfaces
from benchmarks.search.surfaces import detector, retrieval
from servable.tune.search.space import Space

SETTINGS = (
    "gunicorn_workers",
    "tfs_processes",
    "omp_threads",
    "inter_op_threads",
    "intra_op_threads",
)


@pytest.mark.parametrize("row", retrieval.ROWS)
def test_the_retrieval_surface_is_within_a_tenth_of_what_was_published(
    row: tuple[int, ...],
) -> None:
    point = {**dict(zip(SETTINGS, row, strict=True)), "onednn": False}
    published = retrieval.ROWS[row]  # type: ignore[index]
    assert retrieval.rps(point, retrieval.RetrievalParameters()) == pytest.approx(
        published, rel=0.1
    )


@pytest.mark.parametrize("row", detector.ROWS)
def test_the_detector_surface_is_within_a_tenth_of_what_was_published(row: tuple[int, ...]) -> None:
    point = dict(zip(SETTINGS, row, strict=True))
    published = detector.ROWS[row]  # type: ignore[index]
    assert detector.rps(point, detector.DetectorParameters()) == pytest.approx(published, rel=0.1)


@pytest.mark.parametrize("family", surfaces.FAMILIES)
def test_every_grid_has_at_least_500_points(family: str) -> None:
    assert len(Space(surfaces.FAMILIES[family](0).grid)) >= 500


@pytest.mark.parametrize("family", surfaces.FAMILIES)
def test_a_seed_gives_the_same_surface_twice(family: str) -> None:
    one, other = surfaces.FAMILIES[family](7), surfaces.FAMILIES[family](7)
    space = Space(one.grid)
    points = [space.point(number) for number in range(len(space))]
    assert [one.rps(point) for point in points] == [other.rps(point) for point in points]
