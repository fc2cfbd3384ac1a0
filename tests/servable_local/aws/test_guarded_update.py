"""Updates of the environments that have a rollout: watched, and taken back by their alarms."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from servable_local.aws.clock import ManualClock
from servable_local.aws.local_aws import LocalAws
from servable_local.aws.sagemaker import published_metrics
from servable_local.aws.server import Server
from tests.servable_local.aws.container_stand_in import MISTAKE, Launcher, StandIn
from tests.servable_local.aws.rollout_cells import Cells, predicted
from tests.servable_local.aws.synthesised import DeployedNames, is_baking, synthesise
from tests.servable_local.aws.topic_inbox import TopicInbox
from tests.servable_local.aws.watched_endpoint import Watched

pytestmark = pytest.mark.long


GUARDED = ["prod", "staging"]
# One environment always, the other with the slow tests.
EACH = ["prod", pytest.param("staging", marks=pytest.mark.long)]


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
        self._sagemaker = deployed.account.client("sagemaker")
        deployed.deploy(template, wait=False)
        deadline = time.monotonic() + 30
        while not is_baking(self.endpoint()) and time.monotonic() < deadline:
            time.sleep(0.02)
        (self.new,) = deployed.containers()

    def endpoint(self) -> dict[str, Any]:
        found: dict[str, Any] = self._sagemaker.describe_endpoint(EndpointName=self.name)
        return found

    def status(self) -> str:
        return self.deployed.account.settled()

    def answered_by(self, requests: int) -> list[StandIn]:
        runtime = self.deployed.account.client("sagemaker-runtime")
        found = []
        for _ in range(requests):
            body = runtime.invoke_endpoint(EndpointName=self.name, Body=b"x")["Body"].read()
            found.append(self.new if self.new.archive in body else self.old)
        return found


@pytest.fixture(scope="module")
def deployed(
    templates: list[dict[str, dict[str, Any]]], embedded: LocalAws, launcher: Launcher
) -> dict[str, DeployedNames]:
    """Each once; every test updates what the one before it left."""
    return {name: DeployedNames(embedded, launcher, templates[0][name]) for name in GUARDED}


@pytest.fixture
def begin(
    deployed: dict[str, DeployedNames],
    templates: list[dict[str, dict[str, Any]]],
    clock: ManualClock,
) -> Iterator[Callable[[str], Update]]:
    """Starts an update of that environment: to whichever of the two templates is not live."""
    updates: list[Update] = []

    def begin(name: str) -> Update:
        clock.advance(seconds=60 - clock.now().second)
        one = deployed[name]
        live = one.account.client("cloudformation").get_template(StackName="stack")["TemplateBody"]
        settings = json.dumps(live)
        other = templates[0 if '"SAGEMAKER_TFS_INSTANCE_COUNT": "2"' in settings else 1][name]
        one.archive = _archive_of(one)
        updates.append(Update(one, other))
        return updates[-1]

    yield begin
    for update in updates:
        for container in (update.old, update.new):
            container.status, container.seconds = 200, 0.0
        # Whatever is left of it, and until its alarms are quiet again.
        over = not update.deployed.account.status().endswith("_IN_PROGRESS")
        clock.advance(minutes=15 if over else 60)
        update.status()


def _archive_of(deployed: DeployedNames) -> bytes:
    """The archive of the container that answers, whatever became of the last update."""
    runtime = deployed.account.client("sagemaker-runtime")
    answer = runtime.invoke_endpoint(EndpointName=deployed.endpoint, Body=b"x")["Body"].read()
    return str(json.loads(answer)["archive"]).encode()


@pytest.fixture
def update(begin: Callable[[str], Update]) -> Update:
    return begin("prod")


@pytest.fixture
def watched(update: Update, clock: ManualClock, server: Server) -> Watched:
    return Watched(update.deployed.account, clock, server)


def test_while_it_bakes_the_canary_takes_its_share(update: Update, watched: Watched) -> None:
    assert update.endpoint()["EndpointStatus"] == "Updating"
    (variant,) = update.endpoint()["PendingDeploymentSummary"]["ProductionVariants"]
    assert variant["VariantStatus"][0]["StatusMessage"] == (
        "Baking for 600 seconds (WaitIntervalInSeconds) with traffic enabled on canary capacity "
        "of 1 instance(s)."
    )
    assert update.answered_by(8).count(update.new) == 4

    watched.ask(4, update.name)
    metrics = watched.account.client("cloudwatch").list_metrics(MetricName="Invocations")["Metrics"]
    dimensions = [{d["Name"]: d["Value"] for d in metric["Dimensions"]} for metric in metrics]
    pending = update.endpoint()["PendingDeploymentSummary"]["EndpointConfigName"]
    assert pending in [dimension.get("EndpointConfigName") for dimension in dimensions]


@pytest.mark.parametrize("name", EACH)
def test_an_update_without_trouble_completes(
    name: str, begin: Callable[[str], Update], clock: ManualClock, server: Server
) -> None:
    update = begin(name)
    Watched(update.deployed.account, clock, server).minutes(15, requests=2, endpoint=update.name)
    assert update.status() == "UPDATE_COMPLETE"


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize(("trouble", "value"), [("status", 503), ("seconds", 0.2)])
def test_trouble_on_the_new_fleet_takes_the_update_back(
    name: str,
    trouble: str,
    value: float,
    begin: Callable[[str], Update],
    clock: ManualClock,
    server: Server,
) -> None:
    update = begin(name)
    setattr(update.new, trouble, value)
    Watched(update.deployed.account, clock, server).minutes(4, requests=2, endpoint=update.name)
    assert update.status() == "UPDATE_ROLLBACK_COMPLETE"


@pytest.fixture(params=["per configuration", "of the variant alone"])
def published(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether SageMaker publishes errors of one fleet; AWS documents only latency so."""
    if request.param == "of the variant alone":
        errors = {"Invocation4XXErrors", "Invocation5XXErrors", "InvocationModelErrors"}
        monkeypatch.setattr(published_metrics, "OF_BOTH_FLEETS", errors | {"Invocations"})


@pytest.mark.parametrize(("status", "alarm"), [(400, "4xx"), (503, "5xx")])
@pytest.mark.usefixtures("published")
def test_a_canary_that_fails_every_request_is_rolled_back_for_it(
    status: int, alarm: str, update: Update, watched: Watched
) -> None:
    update.new.status = status
    watched.minutes(4, requests=2, endpoint=update.name)
    ended, reason = update.status(), update.endpoint().get("FailureReason", "")
    assert (ended, f"-rollback-primary-{alarm}-" in reason) == ("UPDATE_ROLLBACK_COMPLETE", True)


@pytest.mark.usefixtures("published")
def test_its_good_twin_is_not(update: Update, watched: Watched) -> None:
    watched.minutes(15, requests=2, endpoint=update.name)
    assert update.status() == "UPDATE_COMPLETE"


def test_callers_own_bad_requests_do_not_end_an_update(update: Update, watched: Watched) -> None:
    for _ in range(15):
        watched.ask(4, update.name)
        watched.ask(2, update.name, body=MISTAKE)
        watched.clock.advance(minutes=1)
    assert update.status() == "UPDATE_COMPLETE"


def test_trouble_on_the_old_fleet_alone_does_not(update: Update, watched: Watched) -> None:
    update.old.status = 503
    watched.minutes(15, requests=2, endpoint=update.name)
    assert update.status() == "UPDATE_COMPLETE"


def test_the_way_back_names_the_alarm(update: Update, watched: Watched) -> None:
    update.new.status = 503
    watched.minutes(4, requests=2, endpoint=update.name)
    update.status()
    assert update.answered_by(4) == [update.old] * 4
    assert "-rollback-primary-5xx-" in update.endpoint()["FailureReason"]


def test_start_and_way_back_of_an_update_reach_the_topic_with_the_reason(
    begin: Callable[[str], Update],
    deployed: dict[str, DeployedNames],
    clock: ManualClock,
    server: Server,
) -> None:
    inbox = TopicInbox(deployed["prod"].account)
    begun = begin("prod")
    pending = begun.endpoint()["PendingDeploymentSummary"]["EndpointConfigName"]
    begun.new.status = 503
    Watched(deployed["prod"].account, clock, server).minutes(4, requests=2, endpoint=begun.name)
    begun.status()
    said = inbox.said(2)
    before = begun.endpoint()["EndpointConfigName"]
    assert said[0].startswith(
        f"Endpoint {begun.name} is being updated to configuration {pending}, from "
    )
    assert f"from {before}: UPDATING at " in said[0]
    assert "Stage, where there is one: Baking for 600 seconds" in said[0]
    assert said[1].startswith(f"Endpoint {begun.name}: ROLLING_BACK at ")
    assert "-rollback-primary-5xx-" in said[1].partition("Reason, where there is one: ")[2]


def test_an_alarm_that_is_on_takes_the_update_back(update: Update, watched: Watched) -> None:
    (alarm, *_) = update.endpoint()["LastDeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
    watched.account.client("cloudwatch").set_alarm_state(
        AlarmName=alarm["AlarmName"], StateValue="ALARM", StateReason="an incident"
    )
    watched.clock.advance(seconds=10)
    assert update.status() == "UPDATE_ROLLBACK_COMPLETE"


def test_a_fix_deployed_while_the_old_fleets_alarm_is_on_completes(
    begin: Callable[[str], Update],
    clock: ManualClock,
    server: Server,
    deployed: dict[str, DeployedNames],
) -> None:
    begin("prod")
    clock.advance(minutes=60)  # through: its alarms are now those of the fleet that serves
    live = deployed["prod"].account
    live.settled()
    cloudwatch = live.client("cloudwatch")
    alarms = cloudwatch.describe_alarms(AlarmNamePrefix="ranker-prod-rollback-")["MetricAlarms"]
    for alarm in alarms:
        cloudwatch.set_alarm_state(
            AlarmName=alarm["AlarmName"], StateValue="ALARM", StateReason="the incident"
        )
    fix = begin("prod")
    Watched(live, clock, server).minutes(15, requests=2, endpoint=fix.name)
    assert (len(alarms), fix.status()) == (3, "UPDATE_COMPLETE")


# One of each fault and each strategy, of which wrong answers go live.
FIVE = [
    ("canary", "answers 500"),
    ("linear", "answers 400"),
    ("rolling", "answers slowly"),
    ("all-at-once", "answers wrongly"),
    ("canary", "does not answer"),
]


@pytest.fixture(scope="module")
def cells(embedded: LocalAws, launcher: Launcher, clock: ManualClock, server: Server) -> Cells:
    return Cells(embedded, launcher, clock, server)


@pytest.mark.parametrize(("strategy", "fault"), FIVE)
def test_an_update_ends_as_predicted(strategy: str, fault: str, cells: Cells) -> None:
    assert cells.measured(strategy, fault) == predicted(strategy, fault)
