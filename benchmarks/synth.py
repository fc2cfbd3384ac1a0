"""Measures the duration of `servable check` and synth, compared with an empty app."""

import json
import os
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from benchmarks.frame import ROOT, Log, Result, compute_spread, divide, measure_in_turn

TITLE = "Check and synth"
CLAIMS = False
TEXT = """\
Seconds of `servable check` for four environments, and of `python app.py` without the CDK CLI, each run in a
process of its own. Ten more environments are like `prod`, the largest one; models are hashed from the
cache. cdk-nag and the validation of templates are off, as they are in deployments.
"""
EMPTY, CHECK, ALL, MORE = "empty CDK app", "`servable check`", "every environment", "ten more"
BOUNDS = {
    # A check that takes longer isn't run before every commit.
    f"{CHECK} / {EMPTY}": (0, 1.5),
    f"{ALL} / {EMPTY}": (0, 4),
    f"one of {MORE} / {EMPTY}": (0, 0.5),
}
REPEATS, MORE_ENVIRONMENTS = 5, 10
EMPTY_APP = (
    "import aws_cdk as cdk; "
    "cdk.App(analytics_reporting=False, builtin_cloud_formation_validation=False).synth()"
)


def measure(folder: Path, log: Log) -> Result:
    """Time every way in turn."""
    environments = ROOT / "environments"
    more = shutil.copytree(environments, folder / "environments")
    for number in range(MORE_ENVIRONMENTS):
        text = f'extends = "prod"\n\n[endpoint]\nname = "ranker-more-{number}"\n'
        (more / f"more-{number}.toml").write_text(text, encoding="utf-8")
    run = partial(_time_run, folder / "out")
    check = ("-m", "servable", "check", "dev", "local", "prod", "staging")
    ways = {
        EMPTY: partial(run, environments, "-c", EMPTY_APP),
        CHECK: partial(run, environments, *check),
        ALL: partial(run, environments, "app.py"),
        MORE: partial(run, more, "app.py"),
    }
    for way in ways.values():
        way()  # caches filled, models hashed
    seconds = measure_in_turn(ways, REPEATS, log)
    pairs = zip(seconds[MORE], seconds[ALL], strict=True)
    each = [(more - every) / MORE_ENVIRONMENTS for more, every in pairs]
    ratios = [divide(values, seconds[EMPTY]) for values in (seconds[CHECK], seconds[ALL], each)]
    return {
        "table": {way: {"seconds": compute_spread(values)} for way, values in seconds.items()},
        "ratios": dict(zip(BOUNDS, ratios, strict=True)),
    }


def _time_run(out: Path, environments: Path, *arguments: str) -> float:
    """Return the seconds of one run, started as the CDK CLI does. Raises CalledProcessError."""
    shutil.rmtree(out, ignore_errors=True)
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    context["environments"] = str(environments)
    variables = {"PYTHONPATH": str(ROOT), "CDK_OUTDIR": str(out)}
    environment = {**os.environ, **variables, "CDK_CONTEXT_JSON": json.dumps(context)}
    start = time.perf_counter()
    command = [sys.executable, *arguments]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return time.perf_counter() - start
