"""Updates of the environments that have a rollout: watched, and taken back by their alarms."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from servable_local.aws.sagemaker import published_metrics
from tests.servable_local.aws.boto_members import until
from tests.servable_local.aws.container_stand_in import MISTAKE, StandIn
from tests.servable_local.aws.local_account import Account, TopicInbox
from tests.servable_local.aws.synthesised import (
    DeployedNames,
    is_baking,
    measure,
    predicted,
    synthesise,
)
from tests.servable_local.aws.watched_endpoint import Watched

pytestmark = pytest.mark.long


GUARDED = ["prod", "staging"]


@pytest.fixture(scope="module")
def templates(project_templates: dict[str, dict[str, Any]]) -> list[dict[str, dict[str, Any]]]:
    """As they are, and with another container setting: another configuration."""
    setting = {"variants.primary.container.tfs_processes": "2"}
    return [project_templates, synthesise(**dict.fromkeys(GUARDED, setting))]


class Update:
    """An environment deployed, and an update of it under way, baking."""

    def __init__(self, deployed: DeployedNames, template: dict[str, Any]) -> None:
        self.deployed = deployed
        self.name = deployed.endpoint
        (self.old,) = deployed.containers()
        self.endpoint = deployed.describe
        deployed.deploy(template, wait=False)
        until(lambda: is_baking(self.endpoint()))
        (self.new,) = deployed.containers()

    def status(self) -> str:
        return self.deployed.account.settled()

    def answered_by(self, requests: int) -> list[StandIn]:
        runtime = self.deployed.account.client("sagemaker-runtime")
        found = []
        for _ in range(requests):
            body = runtime.invoke_endpoint(EndpointName=self.name, Body=b"x")["Body"].read()
            found.append(self.new if self.new.archive in body else self.old)
        return found


class Updates:
    """Both environments, deployed once; every update begins with what the one before it left."""

    def __init__(self, templates: list[dict[str, dict[str, Any]]], accounts: Account) -> None:
        self._templates, self.clock = templates, accounts.launcher.clock
        self.deployed = {
            name: DeployedNames(accounts.another(), templates[0][name]) for name in GUARDED
        }
        self.begun: list[Update] = []

    def begin(self, name: str = "prod") -> Update:
        """Starts an update of that environment: to whichever of the two templates is not live."""
        self.clock.advance(seconds=60 - self.clock.now().second)
        one = self.deployed[name]
        live = one.account.client("cloudformation").get_template(StackName="stack")["TemplateBody"]
        settings = json.dumps(live)
        other = self._templates[0 if '"SAGEMAKER_TFS_INSTANCE_COUNT": "2"' in settings else 1][name]
        # The archive of the container that answers, whatever became of the last update.
        runtime = one.account.client("sagemaker-runtime")
        answer = runtime.invoke_endpoint(EndpointName=one.endpoint, Body=b"x")["Body"].read()
        one.archive = str(json.loads(answer)["archive"]).encode()
        self.begun.append(Update(one, other))
        return self.begun[-1]

    def watch(self, update: Update, minutes: int) -> None:
        """Minutes of requests to it."""
        Watched(update.deployed.account).minutes(minutes, requests=2, endpoint=update.name)

    def end(self) -> None:
        """Ends whatever is left of them, and waits until their alarms are quiet again."""
        for update in self.begun:
            for container in (update.old, update.new):
                container.status, container.seconds = 200, 0.0
            over = not update.deployed.account.status().endswith("_IN_PROGRESS")
            self.clock.advance(minutes=15 if over else 60)
            update.status()
        self.begun.clear()


@pytest.fixture(scope="module")
def environments(templates: list[dict[str, dict[str, Any]]], accounts: Account) -> Updates:
    return Updates(templates, accounts)


@pytest.fixture
def updates(environments: Updates) -> Iterator[Updates]:
    yield environments
    environments.end()


def test_while_it_bakes_the_canary_takes_its_share(updates: Updates) -> None:
    update = updates.begin()
    assert update.endpoint()["EndpointStatus"] == "Updating"
    pending = update.endpoint()["PendingDeploymentSummary"]
    (variant,) = pending["ProductionVariants"]
    said = "Baking for 600 seconds (WaitIntervalInSeconds) with traffic enabled on canary capacity"
    assert variant["VariantStatus"][0]["StatusMessage"] == f"{said} of 1 instance(s)."
    assert update.answered_by(8).count(update.new) == 4
    cloudwatch = update.deployed.account.client("cloudwatch")
    metrics = cloudwatch.list_metrics(MetricName="Invocations")["Metrics"]
    dimensions = [{d["Name"]: d["Value"] for d in metric["Dimensions"]} for metric in metrics]
    assert pending["EndpointConfigName"] in [one.get("EndpointConfigName") for one in dimensions]


@pytest.mark.parametrize("name", GUARDED)
def test_an_update_without_trouble_completes(name: str, updates: Updates) -> None:
    """Callers' own bad requests and an old fleet that fails are no trouble of the new one."""
    update = updates.begin(name)
    update.old.status = 503
    watched = Watched(update.deployed.account)
    for _ in range(15):
        watched.ask(4, update.name)
        watched.ask(2, update.name, body=MISTAKE)
        updates.clock.advance(minutes=1)
    assert update.status() == "UPDATE_COMPLETE"


@pytest.fixture
def of_the_variant_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """SageMaker publishes no errors of one fleet; AWS documents only latency so."""
    errors = {"Invocation4XXErrors", "Invocation5XXErrors", "InvocationModelErrors"}
    monkeypatch.setattr(published_metrics, "OF_BOTH_FLEETS", errors | {"Invocations"})


@pytest.mark.usefixtures("of_the_variant_alone")
def test_without_metrics_of_one_fleet_a_canary_that_fails_is_rolled_back_and_a_good_one_not(
    updates: Updates,
) -> None:
    update = updates.begin()
    updates.watch(update, 15)
    assert update.status() == "UPDATE_COMPLETE"
    update = updates.begin()
    update.new.status = 503
    updates.watch(update, 4)
    assert update.status() == "UPDATE_ROLLBACK_COMPLETE"
    assert "-rollback-primary-5xx-" in update.endpoint()["FailureReason"]


@pytest.mark.parametrize(
    ("name", "trouble", "value", "alarm"),
    [
        ("prod", "status", 400, "4xx"),
        ("prod", "status", 503, "5xx"),
        ("prod", "seconds", 0.2, ""),
        ("staging", "status", 503, ""),
    ],
)
def test_trouble_on_the_new_fleet_takes_the_update_back_and_is_told(
    name: str, trouble: str, value: float, alarm: str, updates: Updates
) -> None:
    inbox = TopicInbox(updates.deployed[name].account) if alarm == "5xx" else None
    update = updates.begin(name)
    pending = update.endpoint()["PendingDeploymentSummary"]["EndpointConfigName"]
    setattr(update.new, trouble, value)
    updates.watch(update, 4)
    assert update.status() == "UPDATE_ROLLBACK_COMPLETE"
    live = update.endpoint()
    assert f"-rollback-primary-{alarm}" in live["FailureReason"]
    if trouble == "status":
        assert update.answered_by(4) == [update.old] * 4
    if inbox:
        begun, taken_back = inbox.said(2)
        updated = f"Endpoint {update.name} is being updated to configuration {pending}, from "
        assert begun.startswith(updated)
        assert f"from {live['EndpointConfigName']}: UPDATING at " in begun
        assert "Stage, where there is one: Baking for 600 seconds" in begun
        assert taken_back.startswith(f"Endpoint {update.name}: ROLLING_BACK at ")
        reason = taken_back.partition("Reason, where there is one: ")[2]
        assert "-rollback-primary-5xx-" in reason


def test_an_alarm_that_is_on_takes_the_update_back(updates: Updates) -> None:
    update = updates.begin()
    (alarm, *_) = update.endpoint()["LastDeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
    update.deployed.account.client("cloudwatch").set_alarm_state(
        AlarmName=alarm["AlarmName"], StateValue="ALARM", StateReason="an incident"
    )
    updates.clock.advance(seconds=10)
    assert update.status() == "UPDATE_ROLLBACK_COMPLETE"


def test_a_fix_deployed_while_the_old_fleets_alarm_is_on_completes(updates: Updates) -> None:
    update = updates.begin()
    updates.clock.advance(minutes=60)  # through: its alarms are now those of the fleet that serves
    update.status()
    cloudwatch = update.deployed.account.client("cloudwatch")
    alarms = cloudwatch.describe_alarms(AlarmNamePrefix="ranker-prod-rollback-")["MetricAlarms"]
    for alarm in alarms:
        cloudwatch.set_alarm_state(
            AlarmName=alarm["AlarmName"], StateValue="ALARM", StateReason="the incident"
        )
    fix = updates.begin()
    updates.watch(fix, 15)
    assert (len(alarms), fix.status()) == (3, "UPDATE_COMPLETE")


@pytest.mark.parametrize(
    ("strategy", "fault"),
    [
        ("linear", "answers 400"),
        ("rolling", "answers slowly"),
        ("all-at-once", "answers wrongly"),  # goes live
        ("canary", "does not answer"),
    ],
)
def test_an_update_ends_as_predicted(account: Account, strategy: str, fault: str) -> None:
    assert measure(account, strategy, fault) == predicted(strategy, fault)
