"""Made-up endpoints whose best settings need another worker class, threads, batch threads, or queue.

A closed formula of the whole container: Gunicorn's workers, the queues and batch threads of the model
servers, and the cores that all share. Where one setting is left as it is today, the best of all others stays
far below the best, so that a search which doesn't try it can't find the optimum. The seeds 0 to 49,
100 to 111, and 71130000 to 71140009 were looked at while the search was developed.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infra.parameters.placement import list_placements
from infra.policy.container import Batching, ContainerSettings
from servable.tune.container_space import Machines, build_current_point, build_machines
from servable.tune.search.space import BATCH_SIZE, Space
from tests.servable.tune import surfaces
from tests.servable.tune.surfaces import USERS_PER_CORE, Surface, load_placed

Values = NDArray[np.float64]
# Settings of today that keep the others below this share of the best.
BLIND_SHARE = 0.87
BATCH_THREADS, QUEUE = "batching.batch_threads", "batching.max_enqueued_batches"
LIES_IN = {
    "worker class": "gunicorn_worker_class",
    "worker threads": "gunicorn_threads",
    "batch threads": BATCH_THREADS,
    "queue": QUEUE,
}

# Today: one server, since the model is large, with batch threads and a queue as an article has them.
TODAY = ContainerSettings(
    tfs_processes=1,
    gunicorn_workers=16,
    batching=Batching(max_batch_size=512, batch_threads=4, max_enqueued_batches=16),
)


@functools.cache
def _build_machines() -> Machines:
    """Return what `servable tune` makes if it doesn't know the traffic."""
    loaded, _ = load_placed("prod")
    environment = loaded.environment
    variant = environment.variants["primary"].model_copy(update={"container": TODAY})
    traffic = environment.traffic.model_copy(update={"peak_rps": None})
    update = {"traffic": traffic, "variants": {"primary": variant}}
    loaded = dataclasses.replace(loaded, draft=environment.model_copy(update=update))
    return build_machines(loaded, list_placements(loaded.environment)[0])


@functools.cache
def make_space(processes: int) -> tuple[Machines, dict[str, NDArray[Any]]]:
    """Return the space where so many model servers fit into memory, and its columns."""
    found = _build_machines()
    points = map(found.space.build_point, range(len(found.space)))
    fitting = (point for point in points if int(point["tfs_processes"] or 1) <= processes)
    grid = found.space.grid
    fewer = tuple(count for count in grid["tfs_processes"] if int(count or 1) <= processes)
    found = dataclasses.replace(found, space=Space({**grid, "tfs_processes": fewer}, fitting))
    columns = zip(
        found.space.names, map(np.array, zip(*found.space.keys, strict=True)), strict=True
    )
    return found, dict(columns)


def evaluate(
    of: np.random.Generator, at: dict[str, NDArray[Any]], cores: int, *, waits: bool = False
) -> Values:
    """Return the highest load of every point whose latency stays below the limit.

    `waits`: code waits long, and a batch holds few requests, so that many of them are in the queues.
    """
    # CPU of a request in a worker, of a call of the model, of a request's rows; and what code waits for.
    handler_s, call_s, rows_s, wait_s = (
        0.004 * float(np.exp(of.normal(0, spread))) for spread in (0.9, 1.2, 0.9, 1.5)
    )
    parallel, waste = float(of.uniform(0.0, 0.9)), float(of.uniform(0.02, 0.25))
    crowding, greenlets, lock = (float(of.uniform(0.0, most)) for most in (0.15, 0.8, 0.3))
    limit_share, onednn = float(of.uniform(4, 15)), float(of.uniform(0.9, 1.2))
    rows, burst = int(of.choice([25, 100, 500])), float(of.uniform(1, 24))
    if waits:
        rows, wait_s, greenlets = 500, 6 * wait_s, 0.3 * greenlets

    workers, processes = at["gunicorn_workers"], at["tfs_processes"]
    threads, inter, intra = at["gunicorn_threads"], at["inter_op_threads"], at["intra_op_threads"]
    lanes, waited_s = at[BATCH_THREADS], at["batching.timeout_micros"] / 1e6
    kind, users = at["gunicorn_worker_class"], USERS_PER_CORE * cores
    # How many requests one worker takes at once, and what that costs it.
    slots = np.where(kind == "gevent", 1000, threads)
    worker_s = handler_s * np.where(kind == "gevent", 1 + greenlets, 1 + lock * np.log2(threads))
    within = np.minimum(users, workers * slots)
    alone_s = handler_s + wait_s + call_s + rows_s
    arriving = 1 + waited_s * within / processes / alone_s / 8
    batch = np.maximum(within / processes / lanes, arriving)
    batch = np.clip(batch, 1, at[BATCH_SIZE] // rows)
    speed_up = 1 / ((1 - parallel) + parallel / intra)
    model_s = call_s / batch + rows_s  # CPU of one request's part of a batch
    alone_s = worker_s + wait_s + (call_s + batch * rows_s) / speed_up + waited_s
    # Requests come in bursts: where a queue may overflow, at most a hundredth of them finds it full.
    room = np.maximum(1.0, at[QUEUE] * batch / burst)
    busiest = np.where(within <= processes * (at[QUEUE] + lanes) * batch, 1.0, 0.01 ** (1 / room))
    computing = np.minimum(lanes, inter)
    busy = np.minimum(workers, users) + np.minimum(processes * computing, users) * intra
    crowd = 1 + crowding * np.maximum(0.0, busy / cores - 2)
    request_s = worker_s + model_s * (1 + waste * (intra - 1))
    limits = np.stack(
        [
            np.minimum(workers, cores) / worker_s,
            processes * np.minimum(computing, cores) * speed_up / model_s * busiest,
            cores / request_s / crowd,
            within / alone_s,
        ]
    )
    least = limits.min(axis=0)
    carried = least * ((least / limits) ** 4.0).sum(axis=0) ** (-1 / 4.0)
    limit_s = limit_share * (handler_s + wait_s + call_s + rows_s)
    found: Values = carried * np.maximum(0.0, 1 - alone_s / limit_s)
    return found * np.where(at["onednn"], onednn, 1.0)


def container(seed: int, *, lies_in: str) -> Surface:
    """Draw endpoints until one has its optimum in this setting."""
    of = np.random.default_rng([109, [*LIES_IN].index(lies_in), seed])
    setting = LIES_IN[lies_in]
    while True:
        found, columns = make_space(int(of.choice([1, 2, 4, 16])))
        placement = found.kinds[found.today].placement
        as_today = columns[setting] == build_current_point(placement)[setting]
        start = found.space.find_nearest(found.initial_points[0])
        values = evaluate(of, columns, placement.instance.vcpus, waits=lies_in == "queue")
        if values[start] > 0 and values[as_today].max() <= BLIND_SHARE * values.max():
            break
    return Surface(space=found.space, values=values, wanted=found.initial_points)


FAMILIES = surfaces.FAMILIES | {
    f"optimum in {name}": functools.partial(container, lies_in=name) for name in LIES_IN
}


# All searches of one seed follow each other.
@functools.lru_cache(maxsize=2)
def make_surface(family: str, seed: int) -> Surface:
    return FAMILIES[family](seed)
