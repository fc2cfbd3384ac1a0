"""No call of a deployment, an update, a rollback or a deletion lies outside the generated policies."""

import json
from dataclasses import replace
from typing import Any

import pytest

from infra.parameters.environment import stack_name
from infra.policy.execution_policy import policies
from servable.permissions.command import deployed
from servable_local.aws.local_aws import REGION, LocalAws
from tests.presets import environments
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_preset import Preset
from tests.servable_local.aws.recorded_calls import outside, record

pytestmark = pytest.mark.long
NAMES = sorted(environments())


class Named(Preset):
    """Its stacks have the names that they have in AWS."""

    def __init__(self, aws: LocalAws, launcher: Launcher, name: str) -> None:
        self._loaded = environments()[name]
        super().__init__(aws, launcher, name)

    def _name(self, stack: str) -> str:
        return stack_name(self._loaded.name, self._loaded.environment, stack)

    def documents(self) -> list[dict[str, Any]]:
        """The policies for this environment, in the account and region that it is deployed to."""
        own = replace(deployed(self._loaded), account=self.account.number, region=REGION)
        owner = f":{self._loaded.environment.account}:"
        text = json.dumps(policies([own])).replace(owner, f":{self.account.number}:")
        found: list[dict[str, Any]] = json.loads(text)
        return found

    def live(self) -> None:
        """An update in place, one that replaces the fleet, one that is taken back, and the deletion."""
        resources = self.templates["endpoint"]["Resources"]
        for one in resources.values():
            if one["Type"] == "AWS::CloudWatch::Alarm":
                one["Properties"]["AlarmDescription"] = "changed"
            elif one["Type"] == "AWS::IAM::Role":
                one["Properties"]["Description"] = "changed"
            elif one["Type"] == "AWS::SNS::Topic":
                one["Properties"]["DisplayName"] = "changed"
            elif one["Type"] == "AWS::SageMaker::EndpointConfig":
                one["Properties"]["ProductionVariants"][0][
                    "ContainerStartupHealthCheckTimeoutInSeconds"
                ] = 3600
        assert self.deploy() == "UPDATE_COMPLETE"
        for one in resources.values():
            if one["Type"] == "AWS::SSM::Parameter":
                one["Properties"]["Value"] = ""  # which Parameter Store refuses
            elif one["Type"] == "AWS::CloudWatch::Alarm":
                one["Properties"]["AlarmDescription"] = "changed again"
        assert self.deploy() == "UPDATE_ROLLBACK_COMPLETE"
        for stack in ("endpoint", "data"):
            if stack in self.templates:
                self.account.delete(self._name(stack))


@pytest.mark.parametrize("name", NAMES)
def test_no_call_lies_outside(
    name: str, embedded: LocalAws, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = record(monkeypatch)
    preset = Named(embedded, launcher, name)
    preset.live()
    assert outside(calls, preset.documents()) == []
