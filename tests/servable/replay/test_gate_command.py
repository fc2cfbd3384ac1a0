"""`servable replay --gate` with the local container: recorded, replayed, and against a changed model."""

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

from infra.parameters.loading import ValidFile, load
from servable.replay.command import replay
from servable.replay.compare.output import WORST_FILE
from servable.serve.serve import prepare_variant, serve_locally
from servable_local.container.recording import Recording
from tests.conftest import RANKER, VALID, valid

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
ROWS, REQUESTS = 3, 40


def bodies() -> Iterator[bytes]:
    random = np.random.default_rng(0)
    for _ in range(REQUESTS):
        ids = random.integers(0, 3_000, (ROWS, 39)).tolist()
        values = random.random((ROWS, 39)).round(4).tolist()
        yield json.dumps({"inputs": {"feat_ids": ids, "feat_vals": values}}).encode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project under git, and recorded.jsonl with what its model answered."""
    root = tmp_path_factory.mktemp("replayed")
    (root / "environments").mkdir()
    shutil.copytree(RANKER, root / "model")
    (root / "cdk.json").write_text("{}")
    (root / "environments" / "prod.toml").write_text(OURS)
    (root / "environments" / "batched.toml").write_text(BATCHED)
    prod = next(one for one in load(root, root / "environments") if one.name == "prod")
    recording = Recording(file=str(root / "recorded.jsonl"), most_bytes=10**7)
    with serve_locally(
        prepare_variant(valid(prod)), port=0, log=root / "log.txt", record=recording
    ) as container:
        for body in bodies():
            sent = urllib.request.Request(
                f"{container.url}/invocations", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(sent) as answer:
                answer.read()
    return root


def ran(project: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    monkeypatch.chdir(project)
    return CliRunner().invoke(
        replay, [*arguments, "--as-fast", "--gate", "--json"], standalone_mode=False
    )


def test_batching_and_other_threads_pass_and_a_changed_answer_does_not(
    served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = served
    place = ("--captured", "recorded.jsonl")
    batched = ran(project, monkeypatch, "batched", *place)
    assert batched.return_value == 0, (batched.output, batched.exception)
    found = json.loads(batched.stdout)["comparison"]
    assert (found["rows"], found["gate"]["lines"]) == (120, [])

    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.com", "-C", str(project)]
    for arguments in (["init", "--quiet"], ["add", "model", "environments", "cdk.json"],
                      ["commit", "--quiet", "--message", "before"]):  # fmt: skip
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    (project / "code").mkdir()
    (project / "code" / "transforms.py").write_text(CHANGED)
    changed = OURS.replace("handler =", 'code = "code"\nhandler =')
    (project / "environments" / "prod.toml").write_text(changed)
    against = ran(project, monkeypatch, "prod", *place, "--against", "HEAD")
    report = json.loads(against.stdout)
    (sentence,) = report["comparison"]["gate"]["lines"]
    assert against.return_value == 1
    assert sentence.startswith("Output prob: 120 of 120 rows differ (100 %; at most 0 %)")
    worst = Path(report["folder"], WORST_FILE)
    assert len(worst.read_bytes().splitlines()) == 20
    assert worst.stat().st_mode & 0o777 == 0o600


def test_a_pipelines_gate_passes_where_the_file_names_no_captured_requests(
    environment: Callable[..., ValidFile], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment()
    (project / "cdk.json").write_text("{}")
    monkeypatch.chdir(project)
    ended = CliRunner().invoke(replay, ["prod", "--gate"], standalone_mode=False)
    assert (ended.return_value, "nothing is replayed" in ended.output) == (0, True)


def test_without_a_gate_and_a_place_it_is_wrong_use(
    environment: Callable[..., ValidFile], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment()
    (project / "cdk.json").write_text("{}")
    monkeypatch.chdir(project)
    ended = CliRunner().invoke(replay, ["prod"], standalone_mode=False)
    assert isinstance(ended.exception, click.UsageError)
