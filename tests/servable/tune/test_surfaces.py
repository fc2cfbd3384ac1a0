"""The surfaces that judge the search."""

import pytest

from tests.servable.tune.surfaces import FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_every_grid_has_500_points_and_a_seed_gives_the_same_surface_twice(family: str) -> None:
    assert len(FAMILIES[family](0).space) >= 500
    assert FAMILIES[family](7).values.tolist() == FAMILIES[family](7).values.tolist()
