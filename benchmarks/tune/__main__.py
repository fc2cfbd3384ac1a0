"""Whether tune finds a setting that is 30 % better, and claims none where there is none: `make bench-tune`.

Each run is the command `servable tune` itself on a local container of examples/ranker, whose
inference.py computes for a while in Python; with one value of one setting, drawn for each run, 1.3
times less. Nothing else that may change matters to it. Writes result.json and docs/performance.md.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import command
from benchmarks.tune.report import RESULT

ROOT = command.ROOT
BETTER = 1.3
WORK_SECONDS = 0.01
# setting -> (the variable that inference.py sees, its text with the values that are not today's)
PLANTED: dict[str, tuple[str, dict[int | bool, str]]] = {
    "intra_op_threads": ("SAGEMAKER_TFS_INTRA_OP_PARALLELISM", {1: "1", 2: "2"}),
    "onednn": ("TF_ENABLE_ONEDNN_OPTS", {False: "0"}),
}
MINUTES = 3
ENVIRONMENT = """\
account = "111111111111"
region = "eu-west-1"
[endpoint]
name = "planted"
[models.ranker]
saved_model = "model"
code = "code"
tensorflow = "2.20"
[variants.primary]
model = "ranker"
instance_type = "ml.c5.xlarge"
[variants.primary.container]
tfs_processes = 1
gunicorn_workers = 2
inter_op_threads = 1
intra_op_threads = 4
onednn = true
"""
HANDLER = """\
import os
import time

SECONDS = {seconds} / ({better} if os.environ.get("{variable}") == "{text}" else 1.0)


def handler(data, context):
    data.read()
    ends = time.thread_time() + SECONDS
    while time.thread_time() < ends:
        pass
    return b'{{"predictions": [1.0]}}', "application/json"
"""
_ASKED = re.compile(r"give --minutes (\d+) or more")


def measured(runs: int, minutes: int, folder: Path, told: command.Told) -> dict[str, Any]:
    about = command.machine()
    kinds = [(number, planted) for number in range(runs) for planted in (True, False)]
    found: list[dict[str, Any]] = []
    for number, planted in kinds:
        run = one_run(folder / f"{number}-{planted}", number if planted else None, minutes)
        told(f"run {len(found) + 1} of {len(kinds)}: {json.dumps(run)}")
        found.append(run)
    return {"machine": about, "minutes_wanted": minutes, "better": BETTER, "runs": found}


def one_run(project: Path, seed: int | None, minutes: int) -> dict[str, Any]:
    """`seed`: draws what is planted; None: nothing is."""
    drawn = random.Random(seed)
    setting = drawn.choice([*PLANTED])
    variable, texts = PLANTED[setting]
    value = drawn.choice([*texts])
    if seed is None:
        variable = "NOTHING_SETS_THIS"
    make(project, variable=variable, text=texts[value])
    said: list[str] = []
    for asked in range(3):
        ended = tuned(project, minutes)
        more = _ASKED.search(ended.stderr)
        if ended.returncode == 0 or more is None or asked == 2:
            break
        # It says that so few minutes hold no comparison: what it asks for is given.
        said.append(_line_with(ended.stderr, more[0]))
        minutes = int(more[1])
    shutil.rmtree(project)
    about = {
        "planted": None if seed is None else {setting: value},
        "minutes": minutes,
        "said": said,
    }
    if ended.returncode:
        return {**about, "failed": ended.stderr.splitlines()[-3:]}
    answer = json.loads(ended.stdout)
    return {
        **about,
        "better": answer["better"],
        "found": seed is not None and answer["better"] and answer["kept"][setting] == value,
        "gain": answer["gain"],
        "trials": answer["trials"],
        "stopped": answer["stopped"],
        "repeats": answer["repeats"],
    }


def make(project: Path, *, variable: str, text: str) -> None:
    ranker = ROOT / "examples" / "ranker"
    shutil.copytree(ranker / "model", project / "model")
    shutil.copy(ranker / "golden" / "request-rows.json", project / "body.json")
    for name in ("code", "environments"):
        (project / name).mkdir()
    handler = HANDLER.format(seconds=WORK_SECONDS, better=BETTER, variable=variable, text=text)
    (project / "code" / "inference.py").write_text(handler, encoding="utf-8")
    (project / "environments" / "local.toml").write_text(ENVIRONMENT, encoding="utf-8")


def tuned(project: Path, minutes: int) -> "subprocess.CompletedProcess[str]":
    settings = [part for name in PLANTED for part in ("--setting", name)]
    body = ["--body", "body.json", "--minutes", str(minutes), "--json"]
    return subprocess.run(
        [sys.executable, "-m", "servable", "tune", "local", *settings, *body],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )


def _line_with(text: str, part: str) -> str:
    return next(line for line in text.splitlines() if part in line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs", type=int, default=10, help="with a planted setting, and as many without"
    )
    parser.add_argument(
        "--minutes", type=int, default=MINUTES, help="more where tune asks for more"
    )
    given = parser.parse_args()
    return command.main(partial(measured, given.runs, given.minutes), RESULT)


if __name__ == "__main__":
    sys.exit(main())
