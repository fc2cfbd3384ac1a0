"""`servable check --explain`: every setting that is deployed, and why."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from infra.policy.container import ContainerSettings
from servable.check.command import check
from tests.conftest import VALID

TEXT = VALID.replace("ml.c5.xlarge", "ml.g4dn.12xlarge") + "container = { tfs_processes = 8 }\n"


@pytest.fixture
def explain(project: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    (project / "environments" / "dev.toml").write_text(TEXT)
    monkeypatch.chdir(project)
    return CliRunner().invoke(check, ["--explain"], standalone_mode=False)


def explained(project: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> dict[str, Any]:
    """Return the settings that `--json` explains, by name."""
    (project / "environments" / "dev.toml").write_text(text)
    monkeypatch.chdir(project)
    ran = CliRunner().invoke(check, ["--explain", "--json"], standalone_mode=False)
    return {one["name"]: one for one in json.loads(ran.stdout)["dev"]["settings"]}


def line(explain: Result, name: str) -> list[str]:
    (found,) = [one for one in explain.stdout.splitlines() if one.startswith(f"  {name} ")]
    return found.split(maxsplit=3)


def test_every_setting_has_its_line_with_origin_and_reason(explain: Result) -> None:
    for name in list(ContainerSettings.model_fields):
        assert line(explain, name)
    assert line(explain, "tfs_processes") == ["tfs_processes", "8", "file", "from the file"]
    assert line(explain, "gpu_memory_margin") == [
        "gpu_memory_margin",
        "-2.2",
        "derived",
        "the image divides by all 8 processes: each then gets 40% of its GPU",
    ]
    assert "price of 2025-01" in explain.stdout
    assert line(explain, "inference_ami")[1] == "al2-ami-sagemaker-inference-gpu-3-1"


def test_the_peak_is_counted_in_instances(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = VALID + "scaling = { max_rps_per_instance = 12 }\n[traffic]\npeak_rps = 100\n"
    line = explained(project, monkeypatch, text)["instances at the peak"]
    assert (line["value"], line["reason"]) == ("17", "100 requests/s / (12 x 0.5)")


def test_batching_is_explained_setting_by_setting(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = VALID + "container = { batching = { max_batch_size = 64 } }\n"
    settings = explained(project, monkeypatch, text)
    batching = {name: one["origin"] for name, one in settings.items() if "batching." in name}
    assert batching == {
        "batching.max_batch_size": "file",
        "batching.timeout_micros": "image",
        "batching.batch_threads": "derived",
        "batching.max_enqueued_batches": "derived",
    }


def test_scaling_is_explained(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scaling = "{ max_concurrency_per_instance = 8, scale_in_cooldown_seconds = 600 }"
    settings = explained(project, monkeypatch, f"{VALID}scaling = {scaling}\n")
    for name, value, origin in (
        ("routing", "least_outstanding_requests", "derived"),
        ("scale_out_cooldown_seconds", "210", "derived"),
        ("scale_in_cooldown_seconds", "600", "file"),
        ("target, concurrent requests", "4", "sizing"),
    ):
        assert (settings[name]["value"], settings[name]["origin"]) == (value, origin)


@pytest.mark.parametrize(
    ("lines", "kinds", "reason"),
    [
        ('[rollout]\nstrategy = "canary"\n', "5xx", "for 4xx set alarms.error_4xx_percent or"),
        (
            '[alarms]\nerror_4xx_percent = 5\n[rollout]\nstrategy = "canary"\nrollback_on_4xx = false\n',
            "5xx",
            "rollback_on_4xx is false: callers' 4xx do not count",
        ),
        (
            '[alarms]\nerror_4xx_percent = 5\n[rollout]\nstrategy = "canary"\n',
            "5xx, 4xx",
            "4xx count beyond the old fleet's percentage, where errors are published by fleet",
        ),
        (
            '[alarms]\nerror_4xx_percent = 5\n[rollout]\nstrategy = "all_at_once"\n',
            "5xx, 4xx",
            "4xx count whoever causes them where the first share is the whole fleet",
        ),
    ],
)
def test_it_says_which_errors_roll_an_update_back(
    project: Path, monkeypatch: pytest.MonkeyPatch, lines: str, kinds: str, reason: str
) -> None:
    text = VALID + "min_instances = 2\nmax_instances = 2\n" + lines
    line = explained(project, monkeypatch, text)["rolled back by"]
    assert (line["value"], line["reason"].startswith(reason)) == (kinds, True)


FAULTY = VALID + "min_instances = 2\nmax_instances = 2\n[alarms]\nwindow_minutes = 4\n"


@pytest.mark.parametrize(
    ("lines", "fault", "value", "reason"),
    [
        ("[rollout]\nstrategy = \"canary\"\n", "answers 500", "back after 4 minutes", "seen by 5xx"),
        ("[rollout]\nstrategy = \"canary\"\n", "answers 400", "goes live", "no alarm sees it: add"),
        ("[rollout]\nstrategy = \"canary\"\n", "answers slowly", "goes live", "no alarm sees it: set"),
        (
            "model_error_percent = 2\n[rollout]\nstrategy = \"rolling\"\n",
            "does not answer",
            "back after 4 minutes",
            "seen by model-errors",
        ),
        (
            "[rollout]\nstrategy = \"canary\"\ngolden_requests = { body = \"golden.json\" }\n",
            "answers 400",
            "back after 3 minutes",
            "seen by golden-requests",
        ),
    ],
)  # fmt: skip
def test_it_says_what_becomes_of_a_model_with_a_fault(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: str,
    fault: str,
    value: str,
    reason: str,
) -> None:
    (project / "golden.json").write_text("{}")
    line = explained(project, monkeypatch, FAULTY + lines)[f"a model that {fault}"]
    assert (line["value"], line["reason"].startswith(reason)) == (value, True)
