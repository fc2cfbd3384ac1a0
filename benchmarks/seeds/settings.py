"""S2: settings as a tuple, at this machine's cores in the place of the article's 36."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.serving import workload
from benchmarks.serving.callers import asked
from local.endpoint.launch import launch

REPEATS, SECONDS, CALLERS = 3, 3.0, 8
CORES = os.cpu_count() or 1
# workers, TFS processes, OMP, inter, intra -> the article's transactions/s on ml.c5.9xlarge
ARTICLE = {
    (1, 1, 36, 36, 36): 15.87,
    (36, 1, 1, 36, 36): 164.0,
    (1, 1, 1, 1, 1): 33.0834,
    (36, 1, 1, 1, 1): 67.5118,
    (36, 8, 1, 1, 1): 319.078,
}
NAMES = (
    "SAGEMAKER_GUNICORN_WORKERS",
    "SAGEMAKER_TFS_INSTANCE_COUNT",
    "OMP_NUM_THREADS",
    "SAGEMAKER_TFS_INTER_OP_PARALLELISM",
    "SAGEMAKER_TFS_INTRA_OP_PARALLELISM",
)


def scaled(article: tuple[int, ...], cores: int) -> tuple[int, ...]:
    """The article's tuple for another number of cores: 36 becomes all of them, 8 at most all."""
    return tuple(cores if one == 36 else min(one, cores) for one in article)


def measured(archive: Path, told: Callable[[str], None]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    body = workload.body(workload.JSON, 111)
    with ExitStack() as stack:
        running = {}
        for article in ARTICLE:
            chosen = scaled(article, CORES)
            variables = dict(zip(NAMES, map(str, chosen), strict=True))
            running[article] = stack.enter_context(launch(archive, variables))
        for repeat in range(REPEATS):
            turn = repeat % len(running)
            for article in [*running][turn:] + [*running][:turn]:
                one = asked(
                    running[article].url,
                    body,
                    callers=CALLERS,
                    seconds=SECONDS,
                    content_type=workload.JSON,
                )
                row = {"repeat": repeat, "article": article, "here": scaled(article, CORES)}
                found.append({**row, "requests_per_second": one.requests_per_second})
            told(f"settings: repeat {repeat + 1} of {REPEATS}")
    return found
