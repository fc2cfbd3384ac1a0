"""A server that is limited by something no setting touches: every point is worth the same."""

import numpy as np

from benchmarks.search.surfaces import plateaus
from benchmarks.search.surfaces.surface import Surface


def surface(seed: int) -> Surface:
    height = float(np.random.default_rng([105, seed]).uniform(10, 500))
    return Surface(grid=plateaus.GRID, rps=lambda _: height, vcpus=plateaus.VCPUS)
