"""What is synthesised: the project's environments, ten more, and an app with nothing in it."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / "environments"
MORE = 10
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


def more_environments(folder: Path) -> Path:
    """The project's environments with ten beside them, each like production with a name of its own."""
    made = folder / "environments"
    shutil.copytree(ENVIRONMENTS, made)
    for number in range(MORE):
        text = f'extends = "prod"\n\n[endpoint]\nname = "ranker-more-{number}"\n'
        (made / f"more-{number}.toml").write_text(text, encoding="utf-8")
    return made


def app(environments: Path = ENVIRONMENTS, **context: str) -> tuple[list[str], dict[str, Any]]:
    """(the command, its context): app.py as the CLI runs it, and no CLI."""
    flags = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    return ["app.py"], {**flags, "environments": str(environments), **context}


def seconds(arguments: list[str], context: dict[str, Any], out: Path) -> float:
    """One run in a process of its own, from its start to its end. Raises CalledProcessError."""
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
