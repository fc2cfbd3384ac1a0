"""The record of a deployment: each model on its preferred type, and the overrides of that deployment."""

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from infra.parameters.loading import load
from infra.preflight.check import check, select_errors
from stacks.environment_stage import EnvironmentStage
from tests.conftest import valid
from tests.constructs.conftest import FLAGS
from tests.constructs.test_dashboard import BOARDS


def deployed(project: Path, text: str, **overrides: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the template, and the record that the CDK CLI publishes with it."""
    (project / "environments" / "prod.toml").write_text(text)
    given = {key.replace("__", "."): value for key, value in overrides.items()}
    (loaded,) = load(project, project / "environments", {"prod": given})
    findings = check(loaded)
    assert select_errors(findings) == []
    app = cdk.App(context=FLAGS, outdir=str(project / "cdk.out"))
    stage = EnvironmentStage(app, valid(loaded), findings)
    stack = stage.node.find_child("endpoint")
    assert isinstance(stack, cdk.Stack)
    template = Template.from_stack(stack).to_json()
    (request,) = [
        json.loads(asset["source"]["executable"][-1])
        for file in (project / "cdk.out").rglob("*.assets.json")
        for asset in json.loads(file.read_text())["files"].values()
        if "recording.py" in str(asset["source"].get("executable"))
    ]
    return dict(template), dict(request["record"])


@pytest.mark.long
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
    assert (record["stack"], record["overrides"], "batches" in record) == (
        "prod-endpoint",
        {},
        False,
    )
    assert record["settings"]["variants"]["primary"]["min_instances"] == 2
    assert ("Overrides" in template["Outputs"], "Metadata" in template) == (False, False)


@pytest.mark.long
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
