"""Duration of synth and `servable check`: `make bench-synth`. Writes result.json and docs/performance.md.

Synthesised are the project's environments, ten more, and an app with nothing in it.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.frame import ROOT, Log, Result, machine, main, rounds
from benchmarks.tables import Bound, ways_table

EMPTY = "an app with nothing in it"
ALL = "every environment"
MORE = "ten more environments"
CHECK = "servable check, four environments"
RUNS, MORE_ENVIRONMENTS = 5, 10
ENVIRONMENTS = ROOT / "environments"
EMPTY_APP = (
    "import aws_cdk as cdk; "
    "cdk.App(analytics_reporting=False, builtin_cloud_formation_validation=False).synth()"
)


def measure(folder: Path, log: Log) -> Result:
    before = machine()
    flags = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    flags["environments"] = str(ENVIRONMENTS)
    # The project's environments, and ten like production with names of their own.
    more = shutil.copytree(ENVIRONMENTS, folder / "environments")
    for number in range(MORE_ENVIRONMENTS):
        text = f'extends = "prod"\n\n[endpoint]\nname = "ranker-more-{number}"\n'
        (more / f"more-{number}.toml").write_text(text, encoding="utf-8")
    synth = partial(_seconds, folder / "out")
    ways = {
        EMPTY: partial(synth, flags, "-c", EMPTY_APP),
        ALL: partial(synth, flags, "app.py"),
        MORE: partial(synth, {**flags, "environments": str(more)}, "app.py"),
        CHECK: partial(synth, flags, "-m", "servable", "check", "dev", "local", "prod", "staging"),
    }
    for way in (EMPTY, MORE):
        ways[way]()  # caches filled, models hashed
    seconds = rounds(ways, RUNS, log)
    return {"machine": before, "more": MORE_ENVIRONMENTS, "seconds": seconds}


def _seconds(out: Path, context: dict[str, Any], *arguments: str) -> float:
    """Time one run as the CLI starts it, in a process of its own. Raises CalledProcessError."""
    shutil.rmtree(out, ignore_errors=True)
    variables = {"PYTHONPATH": str(ROOT), "CDK_OUTDIR": str(out)}
    environment = {**os.environ, **variables, "CDK_CONTEXT_JSON": json.dumps(context)}
    command = [sys.executable, *arguments]
    begun = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return time.perf_counter() - begun


def fields(result: Result) -> dict[str, Any]:
    seconds = result["seconds"]
    return {"runs": len(seconds[EMPTY]), "ways": ways_table(("s", "fastest to slowest"), seconds)}


def bounds(result: Result) -> Iterator[Bound]:
    """The benchmark's bounds. Source: the requirements of this project."""
    middle = {way: median(runs) for way, runs in result["seconds"].items()}
    each = (middle[MORE] - middle[ALL]) / result["more"]
    yield Bound(label=f"{ALL} / {EMPTY}", values=[middle[ALL] / middle[EMPTY]], most=4.0, unit="x")
    yield Bound(label=f"each of {MORE}", values=[each], most=0.35, unit=" s")
    if seconds := result["seconds"].get(CHECK):
        # A check that is slower is not run before every commit.
        yield Bound(label=CHECK, values=seconds, most=1.0, unit=" s")


if __name__ == "__main__":
    sys.exit(main("synth", measure))
