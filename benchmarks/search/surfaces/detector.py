"""Shaped after the single-shot detector on ml.p3.2xlarge that AWS measured, eight rows.

Source of the rows: https://aws.amazon.com/blogs/machine-learning/maximize-tensorflow-performance-on-amazon-sagemaker-endpoints-for-real-time-inference/
The formula and every parameter are ours, chosen so that the rows come out within 10 %.
"""

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.search.surfaces.surface import Surface, number, slowest
from servable.tune.search.space import Point

VCPUS = 8
# (gunicorn_workers, tfs_processes, omp_threads, inter_op_threads, intra_op_threads) -> requests/s
ROWS = {
    (1, 1, 36, 36, 36): 16.4613,
    (1, 1, 1, 36, 36): 17.1414,
    (36, 1, 1, 36, 36): 22.7277,
    (1, 1, 1, 1, 1): 16.7216,
    (36, 1, 1, 1, 1): 22.0933,
    (1, 4, 1, 1, 1): 16.6026,
    (16, 4, 1, 1, 1): 31.1001,
    (36, 4, 1, 1, 1): 30.9372,
}
GRID = {
    "tfs_processes": (1, 2, 3, 4, 6, 8),
    "gunicorn_workers": (1, 2, 4, 8, 16, 36, 72),
    "inter_op_threads": (1, 4, 36),
    "intra_op_threads": (1, 4, 36),
    "omp_threads": (1, 36),
}


@dataclass(frozen=True)
class DetectorParameters:
    handler_s: float = 0.0145
    gpu_s: float = 0.0445
    overlap: float = 0.45
    """What more processes win at most: one copies while another computes."""
    overlap_by: float = 1.5
    """Processes until most of it is won."""
    threads_gain: float = 0.0025
    omp_cost: float = 0.008
    crowded: float = 0.002
    """Slower by this for each worker beyond the vCPUs."""
    fits: int = 6
    """Processes that the GPU's memory holds; one more does not start."""


def rps(point: Point, of: DetectorParameters) -> float:
    """One GPU that all share, and the handlers that feed it."""
    workers, processes = number(point, "gunicorn_workers"), number(point, "tfs_processes")
    if processes > of.fits:
        return 0.0
    threads = number(point, "inter_op_threads") * number(point, "intra_op_threads")
    faster = 1 + of.threads_gain * math.log2(threads)
    faster /= 1 + of.omp_cost * math.log2(number(point, "omp_threads"))
    won = 1 + of.overlap * (1 - math.exp(-(processes - 1) / of.overlap_by))
    slower = 1 + of.crowded * max(0, workers - VCPUS) / VCPUS
    return slowest(
        workers / (of.handler_s + of.gpu_s) * faster,
        VCPUS / of.handler_s,
        won / of.gpu_s * faster / slower,
        sharpness=8.0,
    )


def drawn(seed: int) -> DetectorParameters:
    """Another model on the same computer: heavier handlers, more or less to overlap."""
    of = np.random.default_rng([102, seed])
    usual = DetectorParameters()
    return DetectorParameters(
        handler_s=usual.handler_s * float(np.exp(of.normal(0.5, 0.7))),
        gpu_s=usual.gpu_s * float(np.exp(of.normal(-0.3, 0.5))),
        overlap=float(of.uniform(0.2, 1.2)),
        overlap_by=float(of.uniform(0.7, 3.0)),
        threads_gain=float(of.uniform(-0.004, 0.012)),
        omp_cost=float(of.uniform(0.0, 0.04)),
        crowded=float(of.uniform(0.0, 0.06)),
        fits=int(of.choice([3, 4, 6])),
    )


def surface(seed: int) -> Surface:
    of = drawn(seed)
    return Surface(grid=GRID, rps=lambda point: rps(point, of), vcpus=VCPUS)
