"""`servable replay --gate` with the local container: recorded, replayed, and against a changed model."""

import json
from pathlib import Path

import numpy as np
import pytest
import requests
from click.testing import CliRunner, Result

from infra.parameters.loading import load
from servable.replay.command import replay
from servable.replay.compare.output import WORST_FILE
from servable.serve.serve import prepare_variant, serve_locally
from servable_local.container.recording import Recording
from tests.conftest import VALID, valid
from tests.servable.test_check_against import Commit

pytestmark = pytest.mark.long

OURS = VALID.replace('saved_model = "model"', 'saved_model = "model"\nhandler = "servable"')
# 40 requests of three rows show no less.
OURS += "\n[replay]\ndetectable_share = 0.025\n"
BATCHED = """\
extends = "prod"
endpoint.name = "batched"
[variants.primary.container]
intra_op_threads = 2
batching = { max_batch_size = 64, timeout_micros = 1000 }
"""
# One percent on every prediction.
CHANGED = """\
def postprocess(tensors, context):
    return {"outputs": (1.01 * tensors["prob"]).tolist()}
"""


def record(project: Path) -> None:
    """Write recorded.jsonl: 40 requests of three rows, and what the model of prod answers."""
    prod = next(one for one in load(project, project / "environments") if one.name == "prod")
    recording = Recording(file=str(project / "recorded.jsonl"), most_bytes=10**7)
    random, served = np.random.default_rng(0), prepare_variant(valid(prod))
    log = project / "log.txt"
    with serve_locally(served, port=0, log=log, record=recording) as container:
        for _ in range(40):
            ids = random.integers(0, 3_000, (3, 39)).tolist()
            values = random.random((3, 39)).round(4).tolist()
            body = json.dumps({"inputs": {"feat_ids": ids, "feat_vals": values}}).encode()
            headers = {"Content-Type": "application/json"}
            requests.post(f"{container.url}/invocations", body, headers=headers, timeout=60)


def ran(*arguments: str) -> Result:
    options = ["--captured", "recorded.jsonl", "--as-fast", "--gate", "--json"]
    return CliRunner().invoke(replay, [*arguments, *options], standalone_mode=False)


def test_batching_and_other_threads_pass_and_a_changed_answer_does_not(
    prod: Path, commit: Commit
) -> None:
    (prod / "environments" / "prod.toml").write_text(OURS)
    (prod / "environments" / "batched.toml").write_text(BATCHED)
    record(prod)
    batched = ran("batched")
    assert batched.return_value == 0, (batched.output, batched.exception)
    found = json.loads(batched.stdout)["comparison"]
    assert (found["rows"], found["gate"]["lines"]) == (120, [])

    commit(OURS)
    (prod / "code" / "inference.py").unlink()
    (prod / "code" / "transforms.py").write_text(CHANGED)
    changed = OURS.replace("handler =", 'code = "code"\nhandler =')
    (prod / "environments" / "prod.toml").write_text(changed)
    against = ran("prod", "--against", "HEAD")
    report = json.loads(against.stdout)
    (sentence,) = report["comparison"]["gate"]["lines"]
    assert against.return_value == 1
    assert sentence.startswith("Output prob: 120 of 120 rows differ (100 %; at most 0 %)")
    worst = Path(report["folder"], WORST_FILE)
    assert len(worst.read_bytes().splitlines()) == 20
    assert worst.stat().st_mode & 0o777 == 0o600
