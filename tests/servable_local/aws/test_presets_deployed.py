"""Each preset of examples/, deployed: what boto3 reads back is what the template says."""

from collections.abc import Callable
from typing import Any

import pytest

from servable_local.aws.local_aws import LocalAws
from tests.api_calls import calls
from tests.presets import environments
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_preset import Preset

pytestmark = pytest.mark.long
NAMES = [name for name in sorted(environments()) if not name.startswith("environments/")]
FILLED_IN = ("made-up", "arn:aws:iam::111111111111:role", "arn:aws:sns:")
Deploy = Callable[[str], Preset]


@pytest.fixture(scope="module")
def deploy(embedded: LocalAws, launcher: Launcher) -> Deploy:
    made: dict[str, Preset] = {}

    def once(name: str) -> Preset:
        if name not in made:
            made[name] = Preset(embedded, launcher, name)
        return made[name]

    return once


def asked(preset: Preset, operation: str) -> list[dict[str, Any]]:
    """Arguments of every such call that the template stands for."""
    found = calls(preset.templates["endpoint"])
    return [arguments for _, one, arguments in found if one == operation]


def same(wanted: Any, found: Any) -> list[str]:
    """Where `found` lacks what was wanted; what CloudFormation fills in is there, and not compared."""
    if isinstance(wanted, dict):
        return [
            f"{key}: {said}"
            for key, value in wanted.items()
            if key not in ("Tags", "ModelDataUrl")
            for said in (same(value, found[key]) if key in (found or {}) else ["is not there"])
        ]
    if isinstance(wanted, list):
        if len(wanted) != len(found):
            return [f"{len(wanted)} wanted, {len(found)} found"]
        return [said for one, other in zip(wanted, found, strict=True) for said in same(one, other)]
    if isinstance(wanted, str) and any(one in wanted for one in FILLED_IN):
        return [] if found else ["empty"]
    equal = float(wanted) == found if isinstance(found, float) else str(wanted) == str(found)
    return [] if equal else [f"{found!r} and not {wanted!r}"]


@pytest.mark.parametrize("name", NAMES)
def test_the_live_configuration_and_scaling_are_the_templates(deploy: Deploy, name: str) -> None:
    preset = deploy(name)
    endpoints = preset.client("sagemaker").list_endpoints()["Endpoints"]
    assert len(endpoints) == len(asked(preset, "CreateEndpoint"))
    for wanted in asked(preset, "CreateEndpointConfig"):
        wanted.pop("EndpointConfigName")
        assert same(wanted, preset.config) == []

    client, here = preset.client("application-autoscaling"), {"ServiceNamespace": "sagemaker"}
    for found, operation, by in (
        (client.describe_scalable_targets(**here), "RegisterScalableTarget", "MaxCapacity"),
        (client.describe_scaling_policies(**here), "PutScalingPolicy", "PolicyName"),
        (client.describe_scheduled_actions(**here), "PutScheduledAction", "ScheduledActionName"),
    ):
        (live,) = (value for value in found.values() if isinstance(value, list))
        wanted = asked(preset, operation)
        for one in wanted:
            for key in ("ResourceId", "ScalableDimension"):  # a policy's come from its target
                one.pop(key, None)
        ordered = [sorted(all_, key=lambda one: str(one[by])) for all_ in (wanted, live)]
        assert same(*ordered) == [], operation


@pytest.mark.parametrize("name", ["variants/batch", "variants/batch-only"])
def test_the_live_state_machines_and_schedules_are_the_templates(deploy: Deploy, name: str) -> None:
    preset = deploy(name)
    machines = preset.client("stepfunctions").list_state_machines()["stateMachines"]
    schedules = preset.client("scheduler").list_schedules()["Schedules"]
    for kind, key, found in (
        ("AWS::StepFunctions::StateMachine", "StateMachineName", [m["name"] for m in machines]),
        ("AWS::Scheduler::Schedule", "Name", [schedule["Name"] for schedule in schedules]),
    ):
        assert sorted(found) == sorted(one[key] for one in preset.resources(kind))
