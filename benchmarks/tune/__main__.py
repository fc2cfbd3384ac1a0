"""Whether tune finds a setting that is 30 % better, and claims none where there is none: `make bench-tune`.

Each run is the command `servable tune` itself on a local container of examples/ranker, whose
inference.py computes for a while in Python; with one value of one setting, drawn for each run, 1.3
times less. Nothing else that may change matters to it. Writes result.json and docs/performance.md.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.frame import ROOT, Log, Result, machine, main
from benchmarks.tables import target
from infra.policy.container import variable_of
from servable.tune.command import EXIT_CODES

BETTER, WORK_SECONDS = 1.3, 0.01
# setting -> the text that inference.py sees of each value that is not today's
PLANTED: dict[str, dict[int | bool, str]] = {
    "intra_op_threads": {1: "1", 2: "2"},
    "onednn": {False: "0"},
}
MINUTES = 5
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
LEAST_SHARE = 0.9


def measure(folder: Path, log: Log, *, runs: int, minutes: int) -> Result:
    before, results = machine(), []
    for number in range(runs):
        for seed in (number, None):
            results.append(run(folder / f"{number}-{seed}", seed, minutes))
            log(f"run {len(results)} of {2 * runs}: {json.dumps(results[-1])}")
    return {"machine": before, "minutes": minutes, "better": BETTER, "runs": results}


def run(project: Path, seed: int | None, minutes: int) -> dict[str, Any]:
    """`seed`: draws what is planted; None: nothing is."""
    drawn = random.Random(seed)
    setting = drawn.choice([*PLANTED])
    variable, texts = variable_of(setting), PLANTED[setting]
    value = drawn.choice([*texts])
    make(project, "NOTHING_SETS_THIS" if seed is None else variable, texts[value])
    ended = tuned(project, minutes)
    shutil.rmtree(project)
    about = {"planted": None if seed is None else {setting: value}}
    if ended.returncode not in EXIT_CODES.values():
        return {**about, "failed": ended.stderr.splitlines()[-3:]}
    answer = json.loads(ended.stdout)
    right = seed is not None and answer["better"] and answer["kept"][setting] == value
    keys = ("verdict", "better", "gain", "pairs", "trials", "stopped", "noise")
    return {**about, "found": right, **{key: answer[key] for key in keys}}


def make(project: Path, variable: str, text: str) -> None:
    ranker = ROOT / "examples" / "ranker"
    shutil.copytree(ranker / "model", project / "model")
    shutil.copy(ranker / "golden" / "request-rows.json", project / "body.json")
    for name in ("code", "environments"):
        (project / name).mkdir()
    handler = HANDLER.format(seconds=WORK_SECONDS, better=BETTER, variable=variable, text=text)
    (project / "code" / "inference.py").write_text(handler, encoding="utf-8")
    shutil.copy(Path(__file__).with_name("local.toml"), project / "environments")


def tuned(project: Path, minutes: int) -> "subprocess.CompletedProcess[str]":
    settings = [part for name in PLANTED for part in ("--setting", name)]
    body = ["--body", "body.json", "--minutes", str(minutes), "--json"]
    command = [sys.executable, "-m", "servable", "tune", "local", *settings, *body]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def fields(result: Result) -> dict[str, Any]:
    runs = result["runs"]
    targets = ["| | runs | gains, least to most | wanted | |", "|---|---:|---:|---:|---|"]
    targets.append(_target("a setting is planted: found", runs, planted=True))
    targets.append(_target("none is planted: none claimed", runs, planted=False))
    return {"targets": targets}


def _target(label: str, runs: list[dict[str, Any]], *, planted: bool) -> str:
    chosen = [run for run in runs if (run["planted"] is not None) == planted]
    finished = [run for run in chosen if "failed" not in run]
    good = sum(bool(run["found"]) if planted else not run["better"] for run in finished)
    gains = [100 * (run["gain"] or {"value": 0.0})["value"] for run in finished] or [0.0]
    least = LEAST_SHARE * len(chosen)
    cells = (f"{good} of {len(chosen)}", f"{min(gains):+.0f} % to {max(gains):+.0f} %")
    return target(label, *cells, f"at least {least:.0f}", good >= least)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="with a planted setting, and without")
    parser.add_argument("--minutes", type=int, default=MINUTES, help="of each run")
    given = parser.parse_args()
    sys.exit(main("tune", partial(measure, runs=given.runs, minutes=given.minutes)))
