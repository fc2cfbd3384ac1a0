"""The record of a deployment: each model on its preferred type, and the overrides of that deployment."""

import json
import os
import resource
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from infra.parameters.loading import load
from infra.preflight.check import check, select_errors
from infra.recording import build_command
from stacks.environment_stage import EnvironmentStage
from tests.conftest import valid
from tests.constructs.conftest import Synthesised
from tests.constructs.test_dashboard import BOARDS
from tests.presets import FLAGS

pytestmark = pytest.mark.long


def deployed(project: Path, text: str, **overrides: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the template, and the record that the CDK CLI publishes with it."""
    (project / "environments" / "prod.toml").write_text(text)
    given = {key.replace("__", "."): value for key, value in overrides.items()}
    (loaded,) = load(project, project / "environments", {"prod": given})
    findings = check(loaded)
    assert select_errors(findings) == []
    app = cdk.App(context=FLAGS, outdir=str(project / "cdk.out"))
    stack = EnvironmentStage(app, valid(loaded), findings).node.find_child("endpoint")
    assert isinstance(stack, cdk.Stack)
    template = Synthesised.of(stack).template
    (request,) = [
        json.loads(asset["source"]["executable"][-1])
        for file in (project / "cdk.out").rglob("*.assets.json")
        for asset in json.loads(file.read_text())["files"].values()
        if "recording.py" in str(asset["source"].get("executable"))
    ]
    return template, dict(request["record"])


def test_each_model_is_recorded_once_with_all_that_a_rollback_needs(project: Path) -> None:
    template, record = deployed(project, BOARDS["pools"])
    assert [
        (each["variant"], each["model"], each["tensorflow"]) for each in record["variants"]
    ] == [("primary", "ranker", "2.20"), ("pools", "ranker", "2.20")]
    primary, pools = record["variants"]
    assert ("cpu" in primary["image"], "gpu" in pools["image"]) == (True, True)
    assert primary["archive"] == pools["archive"]
    assert primary["archive"].endswith(".tar.gz")
    assert primary["model_gib"] > 0
    assert primary["container"]["tfs_processes"] == 1
    known = (record["stack"], record["overrides"], "batches" in record)
    assert known == ("prod-endpoint", {}, False)
    assert record["settings"]["variants"]["primary"]["min_instances"] == 2
    assert ("Overrides" in template["Outputs"], "Metadata" in template) == (False, False)


def test_overrides_are_in_the_record_the_metadata_and_an_output(project: Path) -> None:
    given = {"variants__primary__max_instances": "9", "alarms__window_minutes": "4"}
    template, record = deployed(project, BOARDS["pools"], **given)
    expected = {"alarms.window_minutes": "4", "variants.primary.max_instances": "9"}
    assert record["overrides"] == template["Metadata"]["Overrides"] == expected
    assert json.loads(template["Outputs"]["Overrides"]["Value"]) == expected
    assert template["Outputs"]["AlarmTopicArn"]["Value"] is not None
    _, components = deployed(project, BOARDS["components"])
    assert [each["variant"] for each in components["variants"]] == ["a", "b"]
    _, batch = deployed(project, BOARDS["batch"])
    assert batch["variants"] == []
    (nightly,) = batch["batches"]
    assert (nightly["batch"], nightly["model"]) == ("nightly", "ranker")
    assert nightly["job"] == {
        "accept": "application/json", "split": "line", "strategy": "single_record",
        "assemble": "line", "max_concurrent": 4, "payload_mb": 6,
    }  # fmt: skip


def run_recording(
    file: Path, content: dict[str, str], *, limit: Callable[[], object] | None = None
) -> subprocess.CompletedProcess[str]:
    """Record a deployment in a process that calls `limit` first."""
    only = {"PATH": os.defpath, "HOME": "/", "AWS_EC2_METADATA_DISABLED": "true"}
    return subprocess.run(
        build_command(content, file=file, root=file.parent),
        capture_output=True,
        text=True,
        # With a limit, Python would cut off the bytecode of modules that it compiles.
        env=only | {"PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=limit,
    )


def test_only_its_owner_can_read_records(tmp_path: Path) -> None:
    """Also in a folder that an earlier release has made."""
    file = tmp_path / ".servable" / "deployments" / "ranker.json"
    file.parent.mkdir(parents=True, mode=0o755)
    run_recording(file, {}, limit=lambda: os.umask(0o022) and None).check_returncode()
    assert [path.stat().st_mode & 0o777 for path in (file.parent, file)] == [0o700, 0o600]


BIG = {"settings": "x" * 10_000}


def test_a_full_disk_is_named_and_keeps_the_record_that_was_there(small_disk: Path) -> None:
    file = small_disk / ".servable" / "deployments" / "ranker.json"
    file.parent.mkdir(parents=True)
    with suppress(OSError):
        (small_disk / "filling").write_bytes(bytes(2 << 20))
    file.touch()
    ran = run_recording(file, BIG)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        f"{file}: cannot write the deployment's record: No space left on device; make room in "
        f"{file.parent}, then deploy again\n"
    )
    assert list(file.parent.iterdir()) == [file]


def test_a_limit_on_the_size_of_files_is_named(tmp_path: Path) -> None:
    file = tmp_path / ".servable" / "deployments" / "ranker.json"
    sizes = (resource.RLIMIT_FSIZE, (1000, 1000))
    ran = run_recording(file, BIG, limit=lambda: resource.setrlimit(*sizes))
    said = "File too large; raise the limit"
    assert (ran.returncode, said in ran.stderr) == (1, True), ran.stderr
    assert list(file.parent.iterdir()) == []
