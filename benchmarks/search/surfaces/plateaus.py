"""Terraces: most steps change nothing, a few settings must be right together.

No computer is behind it: it is here so that the search is not fitted to one shape of formula.
"""

import numpy as np

from benchmarks.search.surfaces.surface import Surface
from servable.tune.search.space import Point

VCPUS = 16
GRID = {
    "tfs_processes": (1, 2, 4, 8, 16),
    "gunicorn_workers": (1, 4, 8, 16, 32),
    "inter_op_threads": (1, 2, 4, 16),
    "intra_op_threads": (1, 2, 4, 16),
    "onednn": (False, True),
    "batching.max_batch_size": (None, 16, 128),
}
TOP_RPS = 200.0


def surface(seed: int) -> Surface:
    """Each setting has two or three terraces; two pairs of settings have corners that are poor."""
    of = np.random.default_rng([104, seed])
    terraces = {name: _terrace(of, len(values)) for name, values in GRID.items()}
    names = list(GRID)
    corners = []
    for _ in range(2):
        one, other = (str(name) for name in of.choice(names, size=2, replace=False))
        corners.append((one, int(of.integers(len(GRID[one]))), other, float(of.uniform(0.5, 0.9))))

    def rps(point: Point) -> float:
        at = {name: GRID[name].index(point[name]) for name in names}
        found = TOP_RPS
        for name in names:
            found *= terraces[name][at[name]]
        for one, edge, other, worse in corners:
            if at[one] >= edge and at[other] == 0:
                found *= worse
        return found

    return Surface(grid=GRID, rps=rps, vcpus=VCPUS)


def flat(seed: int) -> Surface:
    """A server that is limited by something no setting touches: every point has the same throughput."""
    height = float(np.random.default_rng([105, seed]).uniform(10, 500))
    return Surface(grid=GRID, rps=lambda _: height, vcpus=VCPUS)


def _terrace(of: np.random.Generator, steps: int) -> list[float]:
    """Up to a highest terrace somewhere, and down again: each step goes on or stays."""
    top = int(of.integers(steps))
    heights = [1.0] * steps
    for step in range(top - 1, -1, -1):
        heights[step] = heights[step + 1] * _fall(of)
    for step in range(top + 1, steps):
        heights[step] = heights[step - 1] * _fall(of)
    return heights


def _fall(of: np.random.Generator) -> float:
    return float(of.uniform(0.6, 0.95)) if of.random() < 0.5 else 1.0
