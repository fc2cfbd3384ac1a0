"""S2: settings as a tuple, on this computer's cores instead of the article's 36."""

import os
from contextlib import ExitStack
from typing import Any

from benchmarks import workload
from benchmarks.callers import load
from benchmarks.frame import in_turn
from benchmarks.seeds.bench import Bench
from benchmarks.seeds.claims import ARTICLE, Settings
from infra.policy.container import ContainerSettings

MODELS = ("small",)
REPEATS, RUN_SECONDS, CALLERS, ROWS = 8, 1.5, 8, 111
# Not JSON: what that costs in the local container's model server would hide the settings.
FORM = workload.NPY


def measured(bench: Bench) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    body, cores = workload.body(FORM, ROWS), os.cpu_count() or 1
    with ExitStack() as stack:
        urls = {}
        for article in ARTICLE:
            workers, servers, omp, inter, intra = scaled(article, cores)
            settings = ContainerSettings(
                gunicorn_workers=workers,
                tfs_processes=servers,
                omp_threads=omp,
                inter_op_threads=inter,
                intra_op_threads=intra,
            )
            urls[article] = stack.enter_context(bench.serve("small", settings)).url
        for repeat, article in in_turn(urls, REPEATS):
            run = load(urls[article], body, callers=CALLERS, seconds=RUN_SECONDS, content_type=FORM)
            if run.failed:
                raise RuntimeError(f"{article}: {run.failed} requests failed")
            row = {"repeat": repeat, "article": article, "here": scaled(article, cores)}
            rows.append({**row, "requests_per_second": run.requests_per_second})
            bench.log(f"repeat {repeat + 1} of {REPEATS}: {article}")
    return {"callers": CALLERS, "rows": ROWS, "here": rows}


def scaled(article: Settings, cores: int) -> Settings:
    """The article's tuple for another number of cores: 36 becomes all of them, 8 at most all."""
    workers, servers, omp, inter, intra = (
        cores if count == 36 else min(count, cores) for count in article
    )
    return workers, servers, omp, inter, intra
