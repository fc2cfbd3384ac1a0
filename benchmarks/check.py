"""`make bench-check`: how long `servable check` takes, as somebody who types it waits for it.

Four environments, five fresh processes; exit 1 when the median is above the limit.
"""

import subprocess
import sys
import time

from benchmarks.frame import ROOT
from benchmarks.tables import Bound

ENVIRONMENTS = ("dev", "local", "prod", "staging")
RUNS = 5


def main() -> int:
    seconds = []
    for _ in range(RUNS):
        start = time.monotonic()
        command = [sys.executable, "-m", "servable", "check", *ENVIRONMENTS]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        seconds.append(time.monotonic() - start)
    label = f"servable check of {len(ENVIRONMENTS)} environments"
    # A check that is slower is not run before every commit.
    bound = Bound(label=label, values=seconds, most=1.0, unit=" s")
    print(bound.row())
    return int(not bound.met)


if __name__ == "__main__":
    sys.exit(main())
