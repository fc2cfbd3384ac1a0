"""How good the search is: `make bench-search`. Writes result.json and docs/performance.md.

Each family is kept when it is done (.servable/bench-search/…): interrupted, the same command goes
on with the next one, as long as no line of the search or of this benchmark has changed.
With --develop: the seeds it was developed on, and no page is written.
"""

import hashlib
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import command
from benchmarks.search.crew import Crew
from benchmarks.search.families import Families
from benchmarks.search.report import RESULT, table
from benchmarks.search.run import BUDGET_TRIALS
from benchmarks.search.surfaces import FAMILIES, SEEDS_TO_DEVELOP, SEEDS_TO_REPORT
from benchmarks.search.surfaces.surface import NOISE

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("benchmarks/search", "servable/tune/search", "requirements-tuning.txt")
KEPT = ROOT / ".servable" / "bench-search"


def measured(seeds: range, _: Path, told: command.Told) -> dict[str, Any]:
    about = command.machine()
    with Crew() as crew:
        families = Families(crew, seeds, KEPT / _key(seeds), told)
        runs = {family: families.runs(family) for family in FAMILIES}
        stops = families.flat()
    return {
        "machine": about,
        "budget_trials": BUDGET_TRIALS,
        "noise": NOISE,
        "seeds": [seeds.start, seeds.stop - 1],
        "points": {name: sum(1 for _ in FAMILIES[name](0).points()) for name in FAMILIES},
        "runs": runs,
        "flat": stops,
    }


def _key(seeds: range) -> str:
    """Of what the numbers follow from, and not of how they are shown."""
    found = hashlib.sha256(repr(seeds).encode())
    for name in SOURCES:
        path = ROOT / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            if file.name != "report.py":
                found.update(file.read_bytes())
    found.update((ROOT / "benchmarks/search/surfaces/simulated.json").read_bytes())
    return found.hexdigest()[:12]


def main(arguments: list[str]) -> int:
    if arguments == ["--develop"]:
        try:
            found = measured(SEEDS_TO_DEVELOP, ROOT, lambda text: print(text, file=sys.stderr))
        except KeyboardInterrupt:
            print("interrupted; the families that are done are kept", file=sys.stderr)
            return 130
        print("\n".join(table(found)))
        return 0
    ended = command.main(partial(measured, SEEDS_TO_REPORT), RESULT)
    if ended == 0:
        # The next run searches again, and does not show this one's numbers.
        shutil.rmtree(KEPT, ignore_errors=True)
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
