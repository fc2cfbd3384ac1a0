"""How good the search is: `make bench-search`. Writes result.json and docs/performance.md.

With --develop: the seeds it was developed on, and nothing is written.
"""

import dataclasses
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks import command
from benchmarks.machine import machine
from benchmarks.search.contenders import CONTENDERS
from benchmarks.search.report import RESULT, table
from benchmarks.search.run import BUDGET_TRIALS, flat, run
from benchmarks.search.surfaces import FAMILIES, SEEDS_TO_DEVELOP, SEEDS_TO_REPORT
from benchmarks.search.surfaces.surface import NOISE


def measured(told: command.Told, seeds: range) -> dict[str, Any]:
    # One core for each search: with threads of its own numpy is slower on matrices this small.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    about = machine()
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    with ProcessPoolExecutor() as pool:
        for family in FAMILIES:
            runs[family] = {}
            for contender in CONTENDERS:
                count = len(seeds)
                found = list(pool.map(run, [family] * count, [contender] * count, seeds))
                runs[family][contender] = [dataclasses.asdict(one) for one in found]
            told(f"{family}: {len(seeds)} seeds")
        stops = [
            {"seed": seed, "trials": found[0], "why": found[1]}
            for seed, found in zip(seeds, pool.map(flat, seeds), strict=True)
        ]
    return {
        "machine": about,
        "budget_trials": BUDGET_TRIALS,
        "noise": NOISE,
        "seeds": [seeds.start, seeds.stop - 1],
        "points": {name: sum(1 for _ in FAMILIES[name](0).points()) for name in FAMILIES},
        "runs": runs,
        "flat": stops,
    }


def main(arguments: list[str]) -> int:
    if arguments == ["--develop"]:
        found = measured(lambda text: print(text, file=sys.stderr), SEEDS_TO_DEVELOP)
        print("\n".join(table(found)))
        return 0
    return command.main(lambda folder, told: measured(told, SEEDS_TO_REPORT), RESULT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
