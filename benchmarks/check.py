"""`make bench-check`: how long `servable check` takes, as somebody who types it waits for it.

Four environments, five fresh processes, the median; exit 1 when it is above the limit.
"""

import statistics
import subprocess
import sys
import time

from benchmarks.frame import ROOT

ENVIRONMENTS = ("dev", "local", "prod", "staging")
RUNS = 5
# A check that is slower is not run before every commit.
LIMIT_SECONDS = 1.0


def seconds() -> float:
    """One run, in a process of its own."""
    start = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "servable", "check", *ENVIRONMENTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    taken = time.monotonic() - start
    if ran.returncode:
        sys.exit(f"servable check ended with {ran.returncode}: {ran.stderr}")
    return taken


def main() -> int:
    runs = sorted(seconds() for _ in range(RUNS))
    median = statistics.median(runs)
    print(f"servable check of {len(ENVIRONMENTS)} environments, {RUNS} runs:")
    print(f"  median {median:.2f} s, {runs[0]:.2f} to {runs[-1]:.2f} s; limit {LIMIT_SECONDS:g} s")
    return int(median > LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
