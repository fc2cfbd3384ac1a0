"""Fuzzing by hand, as long as you like: `python -m tests.fuzz.run bodies 200000 [SEED]`.

Bodies of every content type in equal parts; protobuf is read by TensorFlow too, where it is
installed. Prints what was found, as JSON; exits with 1 where something is wrong.
"""

import importlib.util
import itertools
import json
import logging
import sys
import time

from tests.fuzz.body_checks import Checked
from tests.fuzz.body_generator import CONTENT_TYPES, bodies

LIMIT_CPU_SECONDS = 1.0


def run_bodies(count: int, seed: int) -> dict[str, object]:
    by_tensorflow = importlib.util.find_spec("tensorflow") is not None
    slowest, each = 0.0, -(-count // len(CONTENT_TYPES))
    with Checked(seed, by_tensorflow=by_tensorflow) as checked:
        for content_type in CONTENT_TYPES:
            for body in itertools.islice(bodies(content_type, seed), each):
                before = time.process_time()
                checked.answer(body)
                slowest = max(slowest, time.process_time() - before)
                checked.compare(body)
    if slowest > LIMIT_CPU_SECONDS:
        checked.wrong.append(f"a body took {slowest:.2f} CPU-seconds")
    counts = dict(sorted(checked.counts.items()))
    return {
        "bodies": sum(counts.values()),
        "counts": counts,
        "wrong": checked.wrong,
        "slowest_cpu_seconds": round(slowest, 4),
        "by_tensorflow": by_tensorflow,
    }


RUNS = {"bodies": run_bodies}

if __name__ == "__main__":
    logging.disable()
    kind, count, *seed = sys.argv[1:]
    found = RUNS[kind](int(count), int(seed[0]) if seed else 1)
    print(json.dumps(found, indent=1))
    sys.exit(bool(found["wrong"]))
