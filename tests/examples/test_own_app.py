"""The constructs work in somebody else's CDK app."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.checkouts import ROOT


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    out = tmp_path_factory.mktemp("own_app")
    subprocess.run(
        [sys.executable, "examples/own_app/app.py"],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "CDK_OUTDIR": str(out),
            "CDK_VALIDATION": "false",
        },
        check=True,
        capture_output=True,
        timeout=100,
    )
    template = json.loads(Path(out, "search-watch.template.json").read_text())
    return [one["Type"] for one in template["Resources"].values()]


def test_it_has_alarms_a_composite_and_a_dashboard(resources: list[str]) -> None:
    assert Counter(resources) == {
        "AWS::CloudWatch::Alarm": 6,
        "AWS::CloudWatch::CompositeAlarm": 1,
        "AWS::CloudWatch::Dashboard": 1,
        "AWS::SNS::Topic": 1,
        "AWS::SNS::TopicPolicy": 1,
    }
