"""S2: settings as a tuple, on this computer's cores instead of the article's 36."""

import os
from contextlib import ExitStack
from typing import Any

from benchmarks import workload
from benchmarks.frame import in_turn
from benchmarks.seeds.bench import CALLERS, Bench, rate
from benchmarks.seeds.claims import ARTICLE
from infra.policy.container import ContainerSettings

MODELS = ("small",)
REPEATS, RUN_SECONDS, ROWS = 8, 1.5, 111
NAMES = ("gunicorn_workers", "tfs_processes", "omp_threads", "inter_op_threads", "intra_op_threads")


def measured(bench: Bench) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    urls, cores = {}, os.cpu_count() or 1
    # 36 becomes all cores, and 8 at most all.
    here = {
        article: [cores if count == 36 else min(count, cores) for count in article]
        for article in ARTICLE
    }
    with ExitStack() as stack:
        for article, scaled in here.items():
            settings = ContainerSettings.model_validate(dict(zip(NAMES, scaled, strict=True)))
            urls[article] = stack.enter_context(bench.serve("small", settings)).url
        for repeat, article in in_turn(urls, REPEATS):
            # Not JSON, whose cost in the local model server would hide the settings.
            per_second = rate(urls[article], RUN_SECONDS, workload.NPY, ROWS)
            row = {"repeat": repeat, "article": article, "here": here[article]}
            rows.append({**row, "requests_per_second": per_second})
            bench.log(f"repeat {repeat + 1} of {REPEATS}: {article}")
    return {"callers": CALLERS, "rows": ROWS, "here": rows}
