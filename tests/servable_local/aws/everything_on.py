"""Every alarm that an environment file can ask for, in one file: two variants, one on a GPU."""

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk.assertions import Template

from infra.parameters.loading import load
from infra.preflight.check import check, select_errors
from stacks.environment_stage import EnvironmentStage
from tests.conftest import RANKER, VALID, valid

FLAGS = json.loads((RANKER.parents[2] / "cdk.json").read_text())["context"]
EVERYTHING = (
    VALID.replace(
        'instance_type = "ml.c5.xlarge"',
        """instance_type = "ml.c5.xlarge"
max_instances = 3
[variants.primary.scaling]
max_rps_per_instance = 10
[variants.challenger]
model = "ranker"
instance_type = "ml.g4dn.12xlarge"
container = { tfs_processes = 4 }
max_instances = 2
[variants.challenger.scaling]
max_rps_per_instance = 10""",
    )
    + """
[alarms]
p50_latency_ms = 20
p90_latency_ms = 50
p99_latency_ms = 100
error_4xx_percent = 5
model_error_percent = 2
gpu_memory_percent = 80
no_traffic_minutes = 5
at_max_minutes = 4
window_minutes = 3
notify = ["a@example.com"]
page = ["b@example.com"]
[rollout]
strategy = "canary"
canary_percent = 50
"""
)
CONFIG = "config-of-the-new-fleet"
QUEUED = VALID + "[asynchronous]\n[alarms]\noldest_request_minutes = 60\n"
_OF_ALARMS = (
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::CompositeAlarm",
    "AWS::Events::Rule",
    "AWS::KMS::Key",
    "AWS::Logs::LogGroup",
    "AWS::Logs::MetricFilter",
    "AWS::SNS::Topic",
    "AWS::SNS::TopicPolicy",
)


def watching(folder: Path, text: str = EVERYTHING) -> dict[str, Any]:
    """Alarms, log counters, rule and topics of the synthesised template, without the endpoint they watch."""
    (folder / "environments").mkdir()
    (folder / "model").symlink_to(RANKER)
    (folder / "environments" / "prod.toml").write_text(text)
    (loaded,) = load(folder, folder / "environments")
    findings = check(loaded)
    assert select_errors(findings) == []
    stage = EnvironmentStage(
        cdk.App(context=FLAGS, outdir=str(loaded.root / "cdk.out")), valid(loaded), findings
    )
    stack = stage.node.find_child("endpoint")
    assert isinstance(stack, cdk.Stack)
    resources = {
        name: {key: value for key, value in resource.items() if key in ("Type", "Properties")}
        for name, resource in Template.from_stack(stack).to_json()["Resources"].items()
        if resource["Type"] in _OF_ALARMS
    }
    return {"Resources": _with_config(resources)}


def _with_config(part: Any) -> Any:
    """The configuration's attribute as a name: the configuration itself is not deployed."""
    if isinstance(part, dict):
        if part.get("Fn::GetAtt", [None, None])[1] == "EndpointConfigName":
            return CONFIG
        return {key: _with_config(value) for key, value in part.items()}
    return [_with_config(one) for one in part] if isinstance(part, list) else part
