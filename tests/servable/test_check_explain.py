"""`servable check --explain`: every setting that is deployed, and why."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from infra.policy.container import ContainerSettings, find_variable
from servable.check.command import check
from tests.conftest import VALID

TEXT = VALID.replace("ml.c5.xlarge", "ml.g4dn.12xlarge") + "container = { tfs_processes = 8 }\n"


@pytest.fixture
def explain(project: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    (project / "environments" / "dev.toml").write_text(TEXT)
    monkeypatch.chdir(project)
    return CliRunner().invoke(check, ["--explain"], standalone_mode=False)


def line(explain: Result, name: str) -> list[str]:
    (found,) = [one for one in explain.stdout.splitlines() if one.startswith(f"  {name} ")]
    return found.split(maxsplit=3)


@pytest.mark.parametrize("name", list(ContainerSettings.model_fields))
def test_every_setting_has_its_line(explain: Result, name: str) -> None:
    assert line(explain, name)[-1].endswith(f" [{find_variable(name)}]")


def test_what_the_file_says_is_from_the_file(explain: Result) -> None:
    assert line(explain, "tfs_processes") == [
        "tfs_processes", "8", "file", "from the file [SAGEMAKER_TFS_INSTANCE_COUNT]",
    ]  # fmt: skip


def test_what_was_chosen_has_its_reason(explain: Result) -> None:
    assert line(explain, "gpu_memory_margin") == [
        "gpu_memory_margin",
        "-2.2",
        "derived",
        "the image divides it by all 8 processes: each gets 40% of its GPU "
        "[SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN]",
    ]


def test_the_machines_price_has_its_date(explain: Result) -> None:
    assert "price of 2025-01" in explain.stdout


def test_the_peak_is_counted_in_instances(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = VALID + "scaling = { max_rps_per_instance = 12 }\n[traffic]\npeak_rps = 100\n"
    (project / "environments" / "dev.toml").write_text(text)
    monkeypatch.chdir(project)
    ran = CliRunner().invoke(check, ["--explain", "--json"], standalone_mode=False)
    (line,) = [
        setting
        for setting in json.loads(ran.stdout)["dev"]["settings"]
        if setting["name"] == "instances at the peak"
    ]
    assert (line["value"], line["reason"]) == ("17", "100 requests/s / (12 x 0.5)")


def test_what_is_explained_is_what_is_deployed(explain: Result) -> None:
    assert line(explain, "inference_ami")[1] == "al2-ami-sagemaker-inference-gpu-3-1"


def test_batching_is_explained_setting_by_setting(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = VALID + "container = { batching = { max_batch_size = 64 } }\n"
    (project / "environments" / "dev.toml").write_text(text)
    monkeypatch.chdir(project)
    ran = CliRunner().invoke(check, ["--explain", "--json"], standalone_mode=False)
    origins = {
        setting["name"]: setting["origin"]
        for setting in json.loads(ran.stdout)["dev"]["settings"]
        if setting["name"].startswith("batching.")
    }
    assert origins == {
        "batching.max_batch_size": "file",
        "batching.timeout_micros": "image",
        "batching.batch_threads": "derived",
        "batching.max_enqueued_batches": "derived",
    }


@pytest.mark.parametrize(
    ("name", "value", "origin"),
    [
        ("routing", "least_outstanding_requests", "derived"),
        ("scale_out_cooldown_seconds", "210", "derived"),
        ("scale_in_cooldown_seconds", "600", "file"),
        ("target, concurrent requests", "4", "sizing"),
    ],
)
def test_scaling_is_explained(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, origin: str
) -> None:
    scaling = "{ max_concurrency_per_instance = 8, scale_in_cooldown_seconds = 600 }"
    (project / "environments" / "dev.toml").write_text(f"{VALID}scaling = {scaling}\n")
    monkeypatch.chdir(project)
    ran = CliRunner().invoke(check, ["--explain", "--json"], standalone_mode=False)
    (line,) = [
        setting for setting in json.loads(ran.stdout)["dev"]["settings"] if setting["name"] == name
    ]
    assert (line["value"], line["origin"]) == (value, origin)


@pytest.mark.parametrize(
    ("lines", "kinds", "reason"),
    [
        (
            '[rollout]\nstrategy = "canary"\n',
            "5xx",
            "to count 4xx, set alarms.error_4xx_percent or",
        ),
        (
            '[alarms]\nerror_4xx_percent = 5\n[rollout]\nstrategy = "canary"\nrollback_on_4xx = false\n',
            "5xx",
            "rollback_on_4xx is false, so 4xx responses don't count",
        ),
        (
            '[alarms]\nerror_4xx_percent = 5\n[rollout]\nstrategy = "canary"\n',
            "5xx, 4xx",
            "4xx above the old fleet's percentage count, where AWS publishes errors by fleet",
        ),
        (
            '[alarms]\nerror_4xx_percent = 5\n[rollout]\nstrategy = "all_at_once"\n',
            "5xx, 4xx",
            "all 4xx count, because the first share is the whole fleet",
        ),
    ],
)
def test_it_says_which_errors_roll_an_update_back(
    project: Path, monkeypatch: pytest.MonkeyPatch, lines: str, kinds: str, reason: str
) -> None:
    text = VALID + "min_instances = 2\nmax_instances = 2\n" + lines
    (project / "environments" / "dev.toml").write_text(text)
    monkeypatch.chdir(project)
    ran = CliRunner().invoke(check, ["--explain", "--json"], standalone_mode=False)
    (line,) = [
        setting
        for setting in json.loads(ran.stdout)["dev"]["settings"]
        if setting["name"] == "rolled back by"
    ]
    assert (line["value"], line["reason"].startswith(reason)) == (kinds, True)


FAULTY = VALID + "min_instances = 2\nmax_instances = 2\n[alarms]\nwindow_minutes = 4\n"


@pytest.mark.parametrize(
    ("lines", "fault", "value", "reason"),
    [
        ("[rollout]\nstrategy = \"canary\"\n", "answers 500", "back after 4 minutes", "seen by 5xx"),
        ("[rollout]\nstrategy = \"canary\"\n", "answers 400", "goes live", "no alarm sees it; add"),
        ("[rollout]\nstrategy = \"canary\"\n", "answers slowly", "goes live", "no alarm sees it; set"),
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
    (project / "environments" / "dev.toml").write_text(FAULTY + lines)
    monkeypatch.chdir(project)
    ran = CliRunner().invoke(check, ["--explain", "--json"], standalone_mode=False)
    found = {one["name"]: one for one in json.loads(ran.stdout)["dev"]["settings"]}
    line = found[f"a model that {fault}"]
    assert (line["value"], line["reason"].startswith(reason)) == (value, True)
