"""`servable check --explain`: every setting that is deployed, and why."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from infra.policy.container import ContainerSettings, find_variable
from servable.check.command import check
from tests.conftest import VALID

TEXT = VALID.replace("ml.c5.xlarge", "ml.g4dn.12xlarge") + "container = { tfs_processes = 8 }\n"


Explained = Callable[[str], dict[str, Any]]


@pytest.fixture
def explained(project: Path, monkeypatch: pytest.MonkeyPatch) -> Explained:
    """Settings of the file with this text, by their name."""
    monkeypatch.chdir(project)

    def settings(text: str) -> dict[str, Any]:
        (project / "environments" / "dev.toml").write_text(text)
        ran = CliRunner().invoke(check, ["--explain", "--json"], standalone_mode=False)
        return {one["name"]: one for one in json.loads(ran.stdout)["dev"]["settings"]}

    return settings


def test_every_setting_has_its_line_value_origin_and_reason(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "environments" / "dev.toml").write_text(TEXT)
    monkeypatch.chdir(project)
    stdout = CliRunner().invoke(check, ["--explain"], standalone_mode=False).stdout
    assert stdout.count("dev, variant primary\n") == 1
    lines = {
        words[0]: words
        for words in (line.split(maxsplit=3) for line in stdout.splitlines())
        if words
    }
    for name in ContainerSettings.model_fields:
        assert lines[name][-1].endswith(f" [{find_variable(name)}]")
    said = "from the file [SAGEMAKER_TFS_INSTANCE_COUNT]"
    assert lines["tfs_processes"][1:] == ["8", "file", said]
    margin = "[SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN]"
    divided = f"the image divides it by all 8 processes: each gets 40% of its GPU {margin}"
    assert lines["gpu_memory_margin"][1:] == ["-2.2", "derived", divided]
    assert lines["inference_ami"][1] == "al2-ami-sagemaker-inference-gpu-3-1"
    assert "price of 2025-01" in stdout


def test_scaling_batching_and_the_peak_are_explained(explained: Explained) -> None:
    scaled = "scaling = { max_rps_per_instance = 12 }\n[traffic]\npeak_rps = 100\n"
    line = explained(VALID + scaled)["instances at the peak"]
    assert (line["value"], line["reason"]) == ("17", "100 requests/s / (12 x 0.5)")
    batched = explained(VALID + "container = { batching = { max_batch_size = 64 } }\n")
    assert {name: batched[name]["origin"] for name in batched if name.startswith("batching.")} == {
        "batching.max_batch_size": "file",
        "batching.timeout_micros": "image",
        "batching.batch_threads": "derived",
        "batching.max_enqueued_batches": "derived",
    }
    scaling = "{ max_concurrency_per_instance = 8, scale_in_cooldown_seconds = 600 }"
    found = explained(f"{VALID}scaling = {scaling}\n")
    for name, value, origin in (
        ("routing", "least_outstanding_requests", "derived"),
        ("scale_out_cooldown_seconds", "210", "derived"),
        ("scale_in_cooldown_seconds", "600", "file"),
        ("target, concurrent requests", "4", "sizing"),
    ):
        assert (found[name]["value"], found[name]["origin"]) == (value, origin)


def test_it_says_which_errors_roll_back_and_what_becomes_of_a_model_with_a_fault(
    explained: Explained, project: Path
) -> None:
    counted, canary = "[alarms]\nerror_4xx_percent = 5\n", '[rollout]\nstrategy = "canary"\n'
    at_once = '[rollout]\nstrategy = "all_at_once"\n'
    for lines, kinds, reason in (
        (canary, "5xx", "to count 4xx, set alarms.error_4xx_percent or"),
        (f"{counted}{canary}rollback_on_4xx = false\n", "5xx",
         "rollback_on_4xx is false, so 4xx responses don't count"),
        (counted + canary, "5xx, 4xx",
         "4xx above the old fleet's percentage count, where AWS publishes errors by fleet"),
        (counted + at_once, "5xx, 4xx", "all 4xx count, because the first share is the whole fleet"),
    ):  # fmt: skip
        line = explained(f"{VALID}min_instances = 2\nmax_instances = 2\n{lines}")["rolled back by"]
        assert (line["value"], line["reason"].startswith(reason)) == (kinds, True)

    (project / "golden.json").write_text("{}")
    canary = '[rollout]\nstrategy = "canary"\n'
    rolling = 'model_error_percent = 2\n[rollout]\nstrategy = "rolling"\n'
    golden = canary + 'golden_requests = { body = "golden.json" }\n'
    for lines, fault, value, reason in (
        (canary, "answers 500", "back after 4 minutes", "seen by 5xx"),
        (canary, "answers 400", "goes live", "no alarm sees it; add"),
        (canary, "answers slowly", "goes live", "no alarm sees it; set"),
        (rolling, "does not answer", "back after 4 minutes", "seen by model-errors"),
        (golden, "answers 400", "back after 3 minutes", "seen by golden-requests"),
    ):
        line = explained(FAULTY + lines)[f"a model that {fault}"]
        assert (line["value"], line["reason"].startswith(reason)) == (value, True)


FAULTY = VALID + "min_instances = 2\nmax_instances = 2\n[alarms]\nwindow_minutes = 4\n"
