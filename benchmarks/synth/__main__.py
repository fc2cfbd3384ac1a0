"""How long synth takes: `make bench-synth`. Writes result.json and docs/performance.md.

Synthesised are the project's environments, ten more, and an app with nothing in it.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.command import ROOT, Told, in_turn, machine, main
from benchmarks.synth import report
from benchmarks.synth.report import RESULT

RUNS = 5
MORE = 10
ENVIRONMENTS = ROOT / "environments"
EMPTY = (
    "import aws_cdk as cdk; "
    "cdk.App(analytics_reporting=False, builtin_cloud_formation_validation=False).synth()"
)
# What CDK's CLI would turn on, and an app alone does not.
VALIDATED = (
    "import sys, aws_cdk as cdk; own = cdk.App; "
    "cdk.App = lambda **more: own(**{**more, 'builtin_cloud_formation_validation': True}); "
    "sys.argv = ['app.py']; import runpy; runpy.run_path('app.py', run_name='__main__')"
)


def measured(folder: Path, told: Told) -> dict[str, Any]:
    before = machine()
    flags = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    flags["environments"] = str(ENVIRONMENTS)
    more = {**flags, "environments": str(_more_environments(folder))}
    ways: dict[str, tuple[list[str], dict[str, Any]]] = {
        report.EMPTY: (["-c", EMPTY], flags),
        report.ALL: (["app.py"], flags),
        report.MORE: (["app.py"], more),
        report.NAG: (["app.py"], {**flags, "nag": "true"}),
        report.VALIDATED: (["-c", VALIDATED], flags),
    }
    for way in (report.EMPTY, report.MORE):
        _seconds(*ways[way], folder / "out")  # caches filled, models hashed
    found: dict[str, list[float]] = {way: [] for way in ways}
    for number, way in in_turn(ways, RUNS):
        found[way].append(_seconds(*ways[way], folder / "out"))
        told(f"round {number + 1} of {RUNS}: {way:32} {found[way][-1]:5.2f} s")
    return {"machine": before, "more": MORE, "seconds": found}


def _more_environments(folder: Path) -> Path:
    """The project's environments with ten beside them, each like production with a name of its own."""
    made = folder / "environments"
    shutil.copytree(ENVIRONMENTS, made)
    for number in range(MORE):
        text = f'extends = "prod"\n\n[endpoint]\nname = "ranker-more-{number}"\n'
        (made / f"more-{number}.toml").write_text(text, encoding="utf-8")
    return made


def _seconds(arguments: list[str], context: dict[str, Any], out: Path) -> float:
    """One run as the CLI starts it, in a process of its own. Raises CalledProcessError."""
    shutil.rmtree(out, ignore_errors=True)
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "CDK_OUTDIR": str(out),
            "CDK_CONTEXT_JSON": json.dumps(context),
        },
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main(measured, RESULT) or int(not report.met()))
