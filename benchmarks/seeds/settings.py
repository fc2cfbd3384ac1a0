"""S2: settings as a tuple, on this computer's cores instead of the article's 36, and simulated at 36.

The simulated model's work is not known, but three of the article's five rows tell it: with one of
everything a request takes handler and call, one after the other; with 36 workers before one
model server that takes one call at a time, it takes the call; and what 36 threads make of that
is the share of a call that threads do side by side. The two rows that are left are predictions.
"""

import os
from contextlib import ExitStack
from typing import Any

from benchmarks import workload
from benchmarks.callers import load
from benchmarks.command import in_turn
from benchmarks.queueing.simulation import simulate
from benchmarks.queueing.system import System, Work
from benchmarks.seeds.bench import Bench
from benchmarks.seeds.results import ARTICLE, ONES, POOLS, WORKERS, Settings
from infra.policy.container import ContainerSettings

MODELS = ("small",)
REPEATS, ASKED_SECONDS, CALLERS, ROWS = 8, 1.5, 8, 111
# Not JSON: what that costs in the local container's model server would hide the settings.
FORM = workload.NPY
CORES = os.cpu_count() or 1
SIMULATED_CORES, USERS, RUN_SECONDS = 36, 72, 20.0


def measured(bench: Bench) -> dict[str, Any]:
    here: list[dict[str, Any]] = []
    body = workload.body(FORM, ROWS)
    with ExitStack() as stack:
        urls = {
            article: stack.enter_context(bench.serve("small", _settings(article))).url
            for article in ARTICLE
        }
        bench.told("all five are running")
        for repeat, article in in_turn(urls, REPEATS):
            one = load(
                urls[article], body, callers=CALLERS, seconds=ASKED_SECONDS, content_type=FORM
            )
            if one.failed:
                raise RuntimeError(f"{article}: {one.failed} requests failed")
            row = {"repeat": repeat, "article": article, "here": scaled(article, CORES)}
            here.append({**row, "requests_per_second": one.requests_per_second})
            bench.told(f"repeat {repeat + 1} of {REPEATS}: {article}")
    bench.told(f"simulated, {SIMULATED_CORES} cores")
    return {"callers": CALLERS, "rows": ROWS, "here": here, "simulated": _simulated()}


def scaled(article: Settings, cores: int) -> Settings:
    """The article's tuple for another number of cores: 36 becomes all of them, 8 at most all."""
    workers, servers, omp, inter, intra = (
        cores if one == 36 else min(one, cores) for one in article
    )
    return workers, servers, omp, inter, intra


def _settings(article: Settings) -> ContainerSettings:
    workers, servers, omp, inter, intra = scaled(article, CORES)
    return ContainerSettings(
        gunicorn_workers=workers,
        tfs_processes=servers,
        omp_threads=omp,
        inter_op_threads=inter,
        intra_op_threads=intra,
    )


def _simulated() -> dict[str, Any]:
    both_ms, call_ms = 1000 / ARTICLE[ONES], 1000 / ARTICLE[WORKERS]
    # Amdahl's law, turned round.
    speedup = ARTICLE[POOLS] / ARTICLE[WORKERS]
    share = (1 - 1 / speedup) / (1 - 1 / SIMULATED_CORES)
    work = Work(handler_ms=both_ms - call_ms, call_ms=call_ms, parallel_share=share)
    rows = []
    for seed in range(REPEATS):
        for article in ARTICLE:
            run = simulate(_system(article, work), users=USERS, seconds=RUN_SECONDS, seed=seed)
            row = {"repeat": seed, "article": article}
            rows.append({**row, "requests_per_second": run.throughput_rps})
    return {
        "cores": SIMULATED_CORES,
        "users": USERS,
        "handler_ms": work.handler_ms,
        "call_ms": work.call_ms,
        "parallel_share": work.parallel_share,
        "rows": rows,
    }


def _system(article: Settings, work: Work) -> System:
    # OpenMP's threads have no effect on TensorFlow's own pools, and none here.
    workers, servers, _, inter, intra = article
    return System(
        cores=SIMULATED_CORES,
        workers=workers,
        processes=servers,
        calls_at_once=inter,
        threads_per_call=intra,
        work=work,
    )
