"""How good the search is: `make bench-search`. Writes result.json and docs/performance.md.

The surfaces are drawn from a date, today's unless --date repeats another: nobody has looked at them.
What a process of its own is asked stands in contenders: it does not import this module.
"""

import argparse
import dataclasses
import datetime
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import command
from benchmarks.search.contenders import BUDGET_TRIALS, everyone, known
from benchmarks.search.report import RESULT
from benchmarks.search.surfaces import FAMILIES

NOISES = (0.05, 0.15)
# NumPy reads these when it is imported: with threads of its own it is slower on matrices this small,
# and many times slower where cores are shared.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def measured(
    date: datetime.date, surfaces: int, _folder: Path, told: command.Told
) -> dict[str, Any]:
    about, first = command.machine(), int(f"{date:%Y%m%d}") * 100
    told(f"seeds {first} to {first + surfaces - 1}, of --date {date}")
    jobs = [
        (family, first + at, noise)
        for family in FAMILIES
        for noise in NOISES
        for at in range(surfaces)
    ]
    runs: dict[str, dict[str, dict[str, list[dict[str, Any]]]]] = {}
    with _processes() as pool:
        under_way = {pool.submit(everyone, job): job for job in jobs}
        for done, _ in enumerate(as_completed(under_way), start=1):
            if done % surfaces == 0:
                told(f"{done} of {len(jobs)} surfaces")
        for future, (family, _seed, noise) in under_way.items():
            for name, run in future.result().items():
                by_noise = runs.setdefault(family, {}).setdefault(f"{noise:g}", {})
                by_noise.setdefault(name, []).append(dataclasses.asdict(run))
    return {
        "machine": about,
        "date": str(date),
        "seeds": [first, first + surfaces - 1],
        "budget_trials": BUDGET_TRIALS,
        "points": {family: len(known(family, first).space) for family in FAMILIES},
        "runs": {
            family: {
                noise: {
                    name: {key: [run[key] for run in found] for key in found[0]}
                    for name, found in by_name.items()
                }
                for noise, by_name in by_noise.items()
            }
            for family, by_noise in runs.items()
        },
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--date", type=datetime.date.fromisoformat, default=datetime.date.today())
    parser.add_argument(
        "--surfaces",
        type=int,
        default=20,
        choices=range(1, 101),
        metavar="1..100",
        help="of each family and noise",
    )
    given = parser.parse_args()
    return command.main(partial(measured, given.date, given.surfaces), RESULT)


if __name__ == "__main__":
    sys.exit(main())
