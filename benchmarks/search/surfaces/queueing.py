"""A closed formula for workers, model servers, op threads and batching on C cores.

No simulation: bounds of a closed queueing network (the slowest station, and the time of a lone
request against the latency limit), with costs for threads that share cores.
Source of the bounds: Lazowska et al., Quantitative System Performance, 1984, chapter 5.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.search.surfaces.surface import Surface, number, slowest
from servable.tune.search.space import BATCH_SIZE, Point

USERS_PER_CORE = 8


@dataclass(frozen=True)
class QueueingParameters:
    cores: int
    handler_s: float
    """CPU of one request in a worker."""
    call_s: float
    """CPU of one call of the model, whatever its rows."""
    rows_s: float
    """CPU of one request's rows."""
    parallel: float
    """Share of an operation that its threads can divide."""
    intra_waste: float
    """More CPU for each more thread in an operation."""
    crowding: float
    """Slower by this while as many threads wait for a core as there are cores."""
    limit_s: float
    process_gib: float
    memory_gib: float


def rps(point: Point, of: QueueingParameters) -> float:
    """The highest load whose latency stays below the limit; 0 where memory does not suffice."""
    workers, processes = number(point, "gunicorn_workers"), number(point, "tfs_processes")
    inter, intra = number(point, "inter_op_threads"), number(point, "intra_op_threads")
    if processes * of.process_gib + workers * 0.125 > 0.9 * of.memory_gib:
        return 0.0
    users = USERS_PER_CORE * of.cores
    batch, waited = 1.0, 0.0
    size = point[BATCH_SIZE]
    if size is not None:
        waited = int(point["batching.timeout_micros"] or 0) / 1e6
        arriving = 1 + waited * users / processes / (of.handler_s + of.rows_s + of.call_s) / 8
        batch = max(1.0, min(float(size), arriving, users / processes))
    speed_up = 1 / ((1 - of.parallel) + of.parallel / intra)
    waste = 1 + of.intra_waste * (intra - 1)
    model_s = of.call_s / batch + of.rows_s  # CPU of one request's part of a batch
    alone_s = of.handler_s + (of.call_s + batch * of.rows_s) / speed_up + waited
    runnable = min(workers, users) + min(processes * inter, users) * min(intra, 2 * of.cores)
    crowd = 1 + of.crowding * max(0.0, runnable / of.cores - 2)
    carried = slowest(
        min(workers, of.cores) / of.handler_s,
        processes * min(inter, of.cores) * speed_up / model_s,
        of.cores / (of.handler_s + model_s * waste) / crowd,
        users / alone_s,
    )
    # Near the limit little load is left before the slowest hundredth is over it.
    return carried * max(0.0, 1 - alone_s / of.limit_s)


def drawn(seed: int, cores: int) -> QueueingParameters:
    of = np.random.default_rng([103, cores, seed])
    handler_s = 0.004 * float(np.exp(of.normal(0, 0.7)))
    call_s = 0.004 * float(np.exp(of.normal(0, 0.9)))
    rows_s = 0.004 * float(np.exp(of.normal(0, 0.9)))
    return QueueingParameters(
        cores=cores,
        handler_s=handler_s,
        call_s=call_s,
        rows_s=rows_s,
        parallel=float(of.uniform(0.0, 0.9)),
        intra_waste=float(of.uniform(0.02, 0.25)),
        crowding=float(of.uniform(0.01, 0.15)),
        limit_s=(handler_s + call_s + rows_s) * float(of.uniform(3, 15)),
        process_gib=float(of.uniform(0.3, 1.5)),
        memory_gib=2.0 * cores,
    )


def surface(seed: int, *, cores: int) -> Surface:
    of = drawn(seed, cores)
    counts = sorted({1, 2, max(1, cores // 8), max(1, cores // 4), cores // 2, cores, 2 * cores})
    grid = {
        "tfs_processes": tuple(one for one in counts if one <= cores),
        "gunicorn_workers": tuple(counts),
        "inter_op_threads": tuple(sorted({1, 2, 4, cores})),
        "intra_op_threads": tuple(sorted({1, 2, 4, cores})),
        BATCH_SIZE: (None, 8, 32, 128),
        "batching.timeout_micros": (0, 1000, 5000),
    }
    return Surface(grid=grid, rps=lambda point: rps(point, of), vcpus=cores)
