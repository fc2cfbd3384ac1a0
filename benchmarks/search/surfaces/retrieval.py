"""Shaped after the retrieval model on ml.c5.9xlarge that AWS measured, five rows.

Source of the rows: https://aws.amazon.com/blogs/machine-learning/maximize-tensorflow-performance-on-amazon-sagemaker-endpoints-for-real-time-inference/
The formula and every parameter are ours, chosen so that the rows come out within 10 %.
"""

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.search.surfaces.surface import Surface, number, slowest
from servable.tune.search.space import Point

VCPUS = 36
# (gunicorn_workers, tfs_processes, omp_threads, inter_op_threads, intra_op_threads) -> requests/s
ROWS = {
    (1, 1, 36, 36, 36): 15.87,
    (36, 1, 1, 36, 36): 164.0,
    (1, 1, 1, 1, 1): 33.0834,
    (36, 1, 1, 1, 1): 67.5118,
    (36, 8, 1, 1, 1): 319.078,
}
GRID = {
    "tfs_processes": (1, 2, 4, 8, 12, 18, 36),
    "gunicorn_workers": (1, 4, 9, 18, 36, 72),
    "inter_op_threads": (1, 2, 4, 9, 36),
    "intra_op_threads": (1, 2, 4, 36),
    "omp_threads": (1, 36),
    "onednn": (False, True),
}


@dataclass(frozen=True)
class RetrievalParameters:
    handler_s: float = 0.0154
    server_s: float = 0.0148
    omp_cost: float = 0.43
    """Slower by this for each doubling of OpenMP threads."""
    intra_cost: float = 0.01
    inter_shared: float = 0.332
    """Share of one process that its threads cannot do at once."""
    machine_shared: float = 0.083
    """Share of the computer that what runs at once cannot use at once: memory, mostly."""
    machine_crowded: float = 0.002
    """The cost of pairs that run at once: from some number on, more are slower."""
    onednn_gain: float = 1.0


def rps(point: Point, of: RetrievalParameters) -> float:
    """Closed loop: the slowest of workers waiting, workers computing, and the model servers."""
    workers, processes = number(point, "gunicorn_workers"), number(point, "tfs_processes")
    inter, intra = number(point, "inter_op_threads"), number(point, "intra_op_threads")
    slower = 1 + of.omp_cost * math.log2(number(point, "omp_threads"))
    slower *= 1 + of.intra_cost * math.log2(intra)
    server_s = of.server_s * slower / (of.onednn_gain if point["onednn"] else 1.0)
    at_once = processes * inter / (1 + of.inter_shared * (inter - 1))
    pairs = at_once * (at_once - 1)
    together = at_once / (1 + of.machine_shared * (at_once - 1) + of.machine_crowded * pairs)
    # Threads beyond four for each vCPU mostly wait for each other.
    crowd = max(1.0, processes * inter / (4 * VCPUS))
    return slowest(
        workers / (of.handler_s + server_s),
        min(workers, VCPUS) / of.handler_s / (1 + 0.05 * max(0.0, workers / VCPUS - 1)),
        together / server_s / crowd**0.5,
        VCPUS / (of.handler_s + server_s),
    )


def drawn(seed: int) -> RetrievalParameters:
    """Another model on the same computer: handler against server, threads against processes."""
    of = np.random.default_rng([101, seed])
    usual = RetrievalParameters()
    return RetrievalParameters(
        handler_s=usual.handler_s * float(np.exp(of.normal(0, 0.5))),
        server_s=usual.server_s * float(np.exp(of.normal(0, 0.5))),
        omp_cost=usual.omp_cost * float(of.uniform(0, 1.2)),
        intra_cost=float(of.uniform(-0.06, 0.08)),
        inter_shared=float(of.uniform(0.15, 0.6)),
        machine_shared=float(of.uniform(0.03, 0.15)),
        machine_crowded=float(of.uniform(0.0005, 0.008)),
        onednn_gain=float(of.uniform(0.85, 1.2)),
    )


def surface(seed: int) -> Surface:
    of = drawn(seed)
    return Surface(grid=GRID, rps=lambda point: rps(point, of), vcpus=VCPUS)
