"""The grid that `servable tune` makes of this repository's prod, with the queueing formula on it."""

import functools
from pathlib import Path

import numpy as np

from benchmarks.search.surfaces import queueing
from benchmarks.search.surfaces.surface import Surface, number
from infra.parameters.loading import load
from infra.parameters.placement import placements
from servable.tune.machine_space import Machines, machines
from servable.tune.search.space import BATCH_SIZE, Point

ROOT = Path(__file__).resolve().parents[3]


@functools.cache
def _tuned() -> tuple[Machines, int]:
    """And the rows of a request."""
    loaded = next(one for one in load(ROOT, ROOT / "environments") if one.name == "prod")
    assert loaded.environment is not None  # `make check` reads it
    rows = loaded.environment.traffic.rows_per_request or 1
    return machines(loaded, placements(loaded, loaded.environment)[0]), rows


def surface(seed: int) -> Surface:
    tuned, rows = _tuned()
    vcpus = tuned.kinds[tuned.today].placement.instance.vcpus
    of, onednn = queueing.drawn(seed, vcpus), np.random.default_rng([108, seed]).uniform(0.9, 1.2)

    def rps(point: Point) -> float:
        requests = number(point, BATCH_SIZE) / rows
        known = {**point, BATCH_SIZE: requests if requests >= 1 else None}
        return queueing.rps(known, of) * (onednn if point["onednn"] else 1.0)

    return Surface(
        grid=tuned.space.grid, rps=rps, vcpus=vcpus, space=tuned.space, wanted=tuned.wanted
    )
