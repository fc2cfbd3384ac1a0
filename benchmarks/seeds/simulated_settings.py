"""S2's table on a simulated machine of 36 cores.

The model's work is not known, but three of the article's five rows tell it: with one of
everything a request takes handler and call, one after the other; with 36 workers before one
model server that takes one call at a time, it takes the call; and what 36 threads make of that
is the share of a call that threads do side by side. The two rows that are left are predictions.
"""

from typing import Any

from benchmarks.queueing.simulation import simulate
from benchmarks.queueing.system import System, Work
from benchmarks.seeds.article_settings import ARTICLE, ONES, POOLS, WORKERS, Tuple

CORES, USERS, RUN_SECONDS, REPEATS = 36, 72, 20.0, 8


def measured() -> dict[str, Any]:
    work = _work()
    rows = [
        {
            "repeat": seed,
            "article": article,
            "requests_per_second": simulate(
                _system(article, work), users=USERS, seconds=RUN_SECONDS, seed=seed
            ).throughput_rps,
        }
        for seed in range(REPEATS)
        for article in ARTICLE
    ]
    return {
        "cores": CORES,
        "users": USERS,
        "handler_ms": work.handler_ms,
        "call_ms": work.call_ms,
        "parallel_share": work.parallel_share,
        "rows": rows,
    }


def _work() -> Work:
    both_ms, call_ms = 1000 / ARTICLE[ONES], 1000 / ARTICLE[WORKERS]
    # Amdahl's law, turned round.
    speedup = ARTICLE[POOLS] / ARTICLE[WORKERS]
    share = (1 - 1 / speedup) / (1 - 1 / CORES)
    return Work(handler_ms=both_ms - call_ms, call_ms=call_ms, parallel_share=share)


def _system(article: Tuple, work: Work) -> System:
    # OpenMP's threads have no effect on TensorFlow's own pools, and none here.
    workers, servers, _, inter, intra = article
    return System(
        cores=CORES,
        workers=workers,
        processes=servers,
        calls_at_once=inter,
        threads_per_call=intra,
        work=work,
    )
