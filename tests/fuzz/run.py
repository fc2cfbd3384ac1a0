"""Fuzzing by hand, as long as you like: `python -m tests.fuzz.run bodies 200000 [SEED]`, `answers`, `memory`.

Bodies, or what a client is answered, of every content type in equal parts; protobuf is read by
TensorFlow too, where it is installed. Prints what was found, as JSON; exits with 1 where something is wrong.
"""

import importlib.util
import itertools
import json
import logging
import sys
import time
from collections import deque
from pathlib import Path

from servable_handler.handler import Handler
from servable_handler.hooks import Hooks
from servable_handler.settings import Settings
from tests.fuzz import client_answers
from tests.fuzz.body_checks import Checked
from tests.fuzz.body_generator import CONTENT_TYPES, bodies
from tests.servable_handler.conftest import answer_of
from tests.servable_handler.fake_model_server import FakeModelServer
from tests.servable_handler.mutation import damaged

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


def run_answers(count: int, seed: int) -> dict[str, object]:
    outcomes, faults = client_answers.run(-(-count // len(client_answers.CONTENT_TYPES)), seed)
    return {"answers": outcomes, "wrong": faults[:20]}


def run_memory(count: int, seed: int) -> dict[str, object]:
    """Through a real connection to a fake model server: no 5xx, and nothing is kept of what came."""
    wrong: list[str] = []
    memory: dict[str, list[float]] = {}
    with FakeModelServer() as server:
        server.requests = deque(maxlen=0)  # type: ignore[assignment]
        handlers = [
            Handler(Settings(transport=one), Hooks(), server.variables) for one in ("auto", "grpc")
        ]
        for content_type in CONTENT_TYPES:
            samples = memory.setdefault(content_type, [])
            made = itertools.islice(damaged(content_type, seed), count // len(CONTENT_TYPES))
            for number, (body, accept) in enumerate(made):
                headers = {"request_content_type": content_type, "accept_header": accept}
                context = server.context(**headers, content_length=len(body))
                status, answer, _ = answer_of(handlers[number % 2], body, context)
                if status >= 500:
                    wrong.append(f"{status} {accept} {body!r}: {answer!r}")
                if number % (count // len(CONTENT_TYPES) // 5) == 0:
                    samples.append(_pss_mib())
            # After the fourth fifth against after the first.
            if samples[-1] > 1.05 * samples[1]:
                wrong.append(f"{content_type}: {samples} MiB")
    return {"memory_mib": memory, "wrong": wrong[:20]}


def _pss_mib() -> float:
    rollup = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8")
    # Without the files' part: that grows when another process stops sharing a library.
    line = next(line for line in rollup.splitlines() if line.startswith("Pss_Anon:"))
    return int(line.split()[1]) / 1024


RUNS = {"bodies": run_bodies, "answers": run_answers, "memory": run_memory}

if __name__ == "__main__":
    logging.disable()
    kind, count, *seed = sys.argv[1:]
    found = RUNS[kind](int(count), int(seed[0]) if seed else 1)
    print(json.dumps(found, indent=1))
    sys.exit(bool(found["wrong"]))
