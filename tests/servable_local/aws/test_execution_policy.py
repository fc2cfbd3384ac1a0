"""No call of a deployment, an update, a rollback or a deletion lies outside the generated policies."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from infra.catalog.table import table
from infra.parameters.environment import stack_name
from infra.policy.execution_policy import policies
from servable.permissions.command import deployed
from servable_local.aws.clock import ManualClock
from servable_local.aws.local_aws import REGION, LocalAws
from tests.presets import environments, templates
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_preset import Preset
from tests.servable_local.aws.recorded_calls import Call, outside, record

pytestmark = pytest.mark.long
# Together every resource type; `make every-preset` tries them all.
NAMES = [
    "environments/prod",
    "scaling/steps",
    "updates/canary",
    "variants/asynchronous",
    "variants/batch",
    "variants/customer-keys",
    "variants/sleeping",
]


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


@contextmanager
def passing(clock: ManualClock) -> Iterator[None]:
    """Minutes go by, so that a rollout bakes and ends."""
    done = threading.Event()

    def go() -> None:
        while not done.wait(0.02):
            clock.advance(minutes=1)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def calls_outside(
    name: str, aws: LocalAws, launcher: Launcher, clock: ManualClock, made: pytest.MonkeyPatch
) -> list[str]:
    """What the environment's policies do not allow of its life from deployment to deletion."""
    calls = record(made)
    preset = Named(aws, launcher, name)
    with passing(clock):
        preset.live()
    return outside(calls, preset.documents())


@pytest.mark.parametrize("name", NAMES)
def test_no_call_lies_outside(
    name: str,
    embedded: LocalAws,
    launcher: Launcher,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert calls_outside(name, embedded, launcher, clock, monkeypatch) == []


def test_these_make_every_type_that_the_policies_are_for() -> None:
    made = {
        resource["Type"]
        for name in NAMES
        for template in templates(name).values()
        for resource in template["Resources"].values()
    }
    assert made == set(table("handler_permissions")["types"])


def test_a_call_that_the_policies_lack_is_found() -> None:
    call = Call("sagemaker", "DeleteEndpoint", {"EndpointName": "another"}, "123456789012", REGION)
    own = replace(deployed(environments()[NAMES[0]]), account=call.account, region=REGION)
    assert len(outside([call], policies([own]))) == 1
