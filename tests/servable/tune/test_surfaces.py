"""The surfaces that judge the search."""

import pytest

from tests.servable.tune.surfaces import FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_every_grid_has_at_least_500_points(family: str) -> None:
    assert len(FAMILIES[family](0).space) >= 500


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_gives_the_same_surface_twice(family: str) -> None:
    assert FAMILIES[family](7).values.tolist() == FAMILIES[family](7).values.tolist()
