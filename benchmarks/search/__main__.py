"""Quality of the search: `make bench-search`. Writes result.json and docs/performance.md.

The surfaces are drawn from a date, today's unless --date repeats another: nobody has looked at them.
"""

import argparse
import datetime
import multiprocessing
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.frame import Log, Result, machine, main
from benchmarks.search.contenders import BUDGET_TRIALS, everyone
from benchmarks.search.surfaces import FAMILIES

NOISES = (0.05, 0.15)
# Variables of numpy, read when it is imported: with threads of its own it is slower on matrices this small,
# and many times slower where cores are shared.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def measure(_: Path, log: Log, *, date: datetime.date, surfaces: int) -> Result:
    before, first = machine(), int(f"{date:%Y%m%d}") * 100
    seeds = range(first, first + surfaces)
    log(f"seeds {seeds[0]} to {seeds[-1]}, of --date {date}")
    runs: dict[str, Any] = {}
    os.environ.update(ONE_THREAD)
    # Not forked: numpy has read its environment here already. Ctrl-C reaches every process of the terminal;
    # the first one decides what ends.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(None, spawn, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        try:
            for family, noise in product(FAMILIES, NOISES):
                log(f"{family}, {noise:.0%} noise")
                by_name = runs.setdefault(family, {}).setdefault(f"{noise:g}", {})
                for answers in pool.map(everyone, [(family, seed, noise) for seed in seeds]):
                    for name, answer in answers.items():
                        columns = by_name.setdefault(name, {})
                        for key, value in answer.items():
                            columns.setdefault(key, []).append(value)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return {
        "machine": before,
        "date": str(date),
        "seeds": [seeds[0], seeds[-1]],
        "budget_trials": BUDGET_TRIALS,
        "points": {family: len(make(first).space) for family, make in FAMILIES.items()},
        "runs": runs,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--date", type=datetime.date.fromisoformat, default=datetime.date.today())
    parser.add_argument(
        "--surfaces", type=int, default=20, choices=range(1, 101), metavar="1..100",
        help="of each family and noise",
    )  # fmt: skip
    given = parser.parse_args()
    sys.exit(main("search", partial(measure, date=given.date, surfaces=given.surfaces)))
