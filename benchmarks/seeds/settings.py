"""S2: settings as a tuple, at this machine's cores in the place of the article's 36, and simulated at 36."""

import os
from contextlib import ExitStack
from typing import Any

from benchmarks.seeds import simulated_settings
from benchmarks.seeds.article_settings import ARTICLE, Tuple
from benchmarks.seeds.bench import Bench
from benchmarks.serving import workload
from benchmarks.serving.callers import asked
from infra.policy.container import ContainerSettings

MODELS = ("small",)
SECONDS = 100.0
REPEATS, ASKED_SECONDS, CALLERS, ROWS = 8, 1.5, 8, 111
# Not JSON: what that costs in the double's model server would hide the settings.
FORM = workload.NPY
CORES = os.cpu_count() or 1


def measured(bench: Bench) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    body = workload.body(FORM, ROWS)
    with ExitStack() as stack:
        running = {
            article: stack.enter_context(
                bench.serve("small", _settings(scaled(article, CORES)))
            ).url
            for article in ARTICLE
        }
        bench.told("all five are running")
        for repeat in range(REPEATS):
            turn = repeat % len(running)
            for article in [*running][turn:] + [*running][:turn]:
                one = asked(
                    running[article],
                    body,
                    callers=CALLERS,
                    seconds=ASKED_SECONDS,
                    content_type=FORM,
                )
                if one.failed:
                    raise RuntimeError(f"{article}: {one.failed} requests failed")
                row = {"repeat": repeat, "article": article, "here": scaled(article, CORES)}
                found.append({**row, "requests_per_second": one.requests_per_second})
            bench.told(f"repeat {repeat + 1} of {REPEATS}")
    simulated = simulated_settings.measured()
    bench.told(f"simulated, {simulated_settings.CORES} cores")
    return {"callers": CALLERS, "rows": ROWS, "here": found, "simulated": simulated}


def scaled(article: Tuple, cores: int) -> Tuple:
    """The article's tuple for another number of cores: 36 becomes all of them, 8 at most all."""
    workers, servers, omp, inter, intra = (
        cores if one == 36 else min(one, cores) for one in article
    )
    return workers, servers, omp, inter, intra


def _settings(chosen: Tuple) -> ContainerSettings:
    workers, servers, omp, inter, intra = chosen
    return ContainerSettings(
        gunicorn_workers=workers,
        tfs_processes=servers,
        omp_threads=omp,
        inter_op_threads=inter,
        intra_op_threads=intra,
    )
