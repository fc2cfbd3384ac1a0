"""`servable tune` whose endpoint is a formula: everything but the measuring is the command's own.

    python -m tests.servable.tune.formula_trials LOG tune prod …

LOG gets a line when a trial begins and one when it ends. A trial whose number is in HOLD waits.
"""

import json
import math
import os
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import servable.tune.tune
from servable.load.load_test import Schedule
from servable.measured.measurement import CURVE, LoadCurve, Pace
from servable.measured.targets import ReadyTarget
from servable.tune.search.space import Measurement, Point
from servable.tune.trials import Trials
from tests.servable.tune.measured import curve, step

HOLD = "SERVABLE_TEST_HOLD"


def value(point: Point) -> float:
    """Requests per second: more workers are better, and every point has a luck of its own."""
    luck = zlib.crc32(json.dumps(point, sort_keys=True).encode()) / 2**32
    workers = int(str(point.get("gunicorn_workers", 1)))
    return 100.0 * math.sqrt(workers) * (0.98 + 0.04 * luck)


class FormulaTrials(Trials):
    trial_pace = curve_pace = Pace()
    start_seconds = 1.0
    log: Path | None = None
    rps = staticmethod(value)
    fails: type[BaseException] | None = None

    _begun = 0

    @contextmanager
    def serve(self, point: Point) -> Iterator[ReadyTarget]:
        raise AssertionError("nothing is started")
        yield

    def _measure_curve(self, point: Point, schedule: Schedule, pace: Pace, name: str) -> LoadCurve:
        return curve(step(1, 100.0, 16.8))  # the objective is four times this p99, or 100 ms

    def measure_full_curve(self, point: Point, name: str) -> LoadCurve:
        lowest, highest = (step(1, 100.0), step(2, 190.0)), step(16, 390.0, 130.0)
        found = curve(*lowest, step(4, 300.0, 13.0), step(8, 380.0, 60.0), highest)
        found.write(self.run.folder / name / CURVE)
        return found

    def measure_trial(self, point: Point, users: float) -> Measurement:
        self._say("begin", point)
        self._begun += 1
        if os.environ.get(HOLD) == str(self._begun):
            time.sleep(60)
        if self.fails:
            raise self.fails("as the test wants")
        rps = self.rps(point)
        about = {"rps": {"value": rps, "low": rps, "high": rps}, "p99_ms": 50.0, "p50_ms": 20.0}
        self._say("end", point)
        return self._add_cost(Measurement(value=rps, about=about), point, 0.0)

    def _say(self, what: str, point: Point) -> None:
        if self.log:
            with self.log.open("a") as file:
                file.write(json.dumps([what, dict(point)]) + "\n")


if __name__ == "__main__":
    from servable.main import main

    FormulaTrials.log = Path(sys.argv.pop(1))
    vars(servable.tune.tune)["LocalTrials"] = FormulaTrials
    main()
