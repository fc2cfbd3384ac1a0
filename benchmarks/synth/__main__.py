"""How long synth takes: `make bench-synth`. Writes result.json and docs/performance.md."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.command import main
from benchmarks.machine import machine
from benchmarks.synth import report, workload
from benchmarks.synth.report import RESULT

RUNS = 5


def measured(folder: Path, told: Callable[[str], None]) -> dict[str, Any]:
    before = machine()
    more = workload.more_environments(folder)
    _, flags = workload.app()
    ways = {
        report.EMPTY: (["-c", workload.EMPTY], flags),
        report.ALL: workload.app(),
        report.MORE: workload.app(more),
        report.NAG: workload.app(nag="true"),
        report.VALIDATED: (["-c", workload.VALIDATED], flags),
    }
    for way in (report.EMPTY, report.MORE):
        workload.seconds(*ways[way], folder / "out")  # caches filled, models hashed
    found: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(RUNS):
        # Each round starts with another way, so that none always comes first.
        turn = number % len(ways)
        for way in [*ways][turn:] + [*ways][:turn]:
            found[way].append(workload.seconds(*ways[way], folder / "out"))
            told(f"round {number + 1} of {RUNS}: {way:32} {found[way][-1]:5.2f} s")
    return {"machine": before, "more": workload.MORE, "seconds": found}


if __name__ == "__main__":
    sys.exit(main(measured, RESULT) or int(not report.met()))
