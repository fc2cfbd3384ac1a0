"""The constructs work in somebody else's CDK app."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.checkouts import ROOT

pytestmark = pytest.mark.long


def synthesised(app: str, stack: str, out: Path) -> dict[str, Any]:
    """The resources of its template."""
    synthesise(app, out)
    template = json.loads(Path(out, f"{stack}.template.json").read_text())
    found: dict[str, Any] = template["Resources"]
    return found


def synthesise(app: str, out: Path) -> None:
    subprocess.run(
        [sys.executable, f"examples/own_app/{app}"],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "CDK_OUTDIR": str(out),
            "CDK_VALIDATION": "false",
        },
        check=True,
        capture_output=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    made = synthesised("watch.py", "search-watch", tmp_path_factory.mktemp("own_app"))
    return [one["Type"] for one in made.values()]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return synthesised("app.py", "search", tmp_path_factory.mktemp("own_endpoint"))


def test_it_has_alarms_a_composite_and_a_dashboard(resources: list[str]) -> None:
    assert Counter(resources) == {
        "AWS::CloudWatch::Alarm": 6,
        "AWS::CloudWatch::CompositeAlarm": 1,
        "AWS::CloudWatch::Dashboard": 1,
        "AWS::SNS::Topic": 1,
        "AWS::SNS::TopicPolicy": 1,
    }


def test_two_endpoints_of_ones_own_have_models_scaling_and_an_alarm_that_pages(
    endpoint: dict[str, Any],
) -> None:
    kinds = Counter(one["Type"] for one in endpoint.values())
    wanted = {
        "AWS::SageMaker::Model": 2,
        "AWS::SageMaker::EndpointConfig": 2,
        "AWS::SageMaker::Endpoint": 2,
        "AWS::ApplicationAutoScaling::ScalableTarget": 1,
        "AWS::ApplicationAutoScaling::ScalingPolicy": 1,
        "AWS::CloudWatch::CompositeAlarm": 1,
        "AWS::IAM::Role": 3,
    }
    assert {kind: kinds[kind] for kind in wanted} == wanted


def test_its_updates_are_taken_back_by_its_alarms(endpoint: dict[str, Any]) -> None:
    (guarded,) = [
        one["Properties"] for one in endpoint.values() if "DeploymentConfig" in one["Properties"]
    ]
    rollback = guarded["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
    alarms = {
        name
        for name, one in endpoint.items()
        if one["Type"] == "AWS::CloudWatch::Alarm" and name.startswith("RankingRollout")
    }
    assert {alarm["AlarmName"]["Ref"] for alarm in rollback} == alarms
