"""How good the search is: `make bench-search`. Writes result.json and docs/performance.md.

What a process of its own is asked stands in contenders: it does not import this module.
"""

import dataclasses
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks import command
from benchmarks.search.contenders import BUDGET_TRIALS, CONTENDERS, everyone, flat, known
from benchmarks.search.report import RESULT
from benchmarks.search.surfaces import FAMILIES, SEEDS_TO_REPORT
from benchmarks.search.surfaces.surface import NOISE

Job = TypeVar("Job")
Done = TypeVar("Done")
# NumPy reads these when it is imported: with threads of its own it is slower on matrices this small,
# and many times slower where cores are shared.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def measured(_: Path, told: command.Told) -> dict[str, Any]:
    about, runs, seeds = command.machine(), {}, SEEDS_TO_REPORT
    with _processes() as pool:
        for family in FAMILIES:
            by_seed = dict(_each(pool, partial(everyone, family), seeds))
            runs[family] = {
                contender: [dataclasses.asdict(by_seed[seed][at]) for seed in seeds]
                for at, contender in enumerate(CONTENDERS)
            }
            told(f"{family}: {len(runs)} of {len(FAMILIES)} families")
        stops = dict(_each(pool, flat, seeds))
    return {
        "machine": about,
        "budget_trials": BUDGET_TRIALS,
        "noise": NOISE,
        "seeds": [seeds.start, seeds.stop - 1],
        "points": {family: len(known(family, 0).space) for family in FAMILIES},
        "runs": runs,
        "flat": [{"seed": one, "trials": stops[one][0], "why": stops[one][1]} for one in seeds],
    }


@contextmanager
def _processes() -> Iterator[ProcessPoolExecutor]:
    """One for each core. Ctrl-C ends them after the searches that are under way: seconds."""
    os.environ.update(ONE_THREAD)
    # Not forked: numpy has read its environment here already.
    spawn = multiprocessing.get_context("spawn")
    # Ctrl-C reaches every process of the terminal; the first one decides what ends.
    pool = ProcessPoolExecutor(None, spawn, signal.signal, (signal.SIGINT, signal.SIG_IGN))
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _each(
    pool: ProcessPoolExecutor, work: Callable[[Job], Done], jobs: Sequence[Job]
) -> Iterator[tuple[Job, Done]]:
    """As they are done."""
    under_way = {pool.submit(work, job): job for job in jobs}
    for future in as_completed(under_way):
        yield under_way[future], future.result()


if __name__ == "__main__":
    sys.exit(command.main(measured, RESULT))
