"""Two presets of inference components, deployed by the real CDK CLI: one that sleeps, one with two models.

One deployment, one update and one deletion of both; the tests look at what was seen on the way.
"""

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest

from servable_client import AsleepError, Endpoint, PredictionError
from servable_local.aws import LocalAws, running
from tests.checkouts import PATH, Ran, bootstrapped, checkout, run_in
from tests.servable_local.aws.inventory import inventory

ACCOUNT, REGION = "111111111111", "eu-west-1"
PLACE = {"account": ACCOUNT, "region": REGION}
SLEEPING, RANKER, CANDIDATES = (
    "ranker-sleeping-primary",
    "ranker-shared-ranker",
    "ranker-shared-candidates",
)
ENDPOINTS = {SLEEPING: "ranker-sleeping", RANKER: "ranker-shared", CANDIDATES: "ranker-shared"}
# A copy takes 3 requests a minute; no schedule wakes one at the hour at which the tests happen to run.
FEW = (
    "sleeping.variants.primary.scaling.max_rps_per_instance=0.1",
    "components.variants.primary.components.ranker.scaling.max_rps_per_instance=0.1",
    "components.variants.primary.components.ranker.scaling.schedule=[]",
)
CHANGED = (
    "sleeping.variants.primary.environment.RELEASE=two",
    "components.variants.primary.components.ranker.environment.RELEASE=two",
)


@dataclass
class Seen:
    """What was seen, in the order in which it was."""

    alone: dict[str, bytes] = field(default_factory=dict)
    """Answer by component, when all were awake."""
    nameless: str = ""
    commands: dict[str, Ran] = field(default_factory=dict)
    """What commands printed, by their name."""
    after_17_minutes: dict[str, int] = field(default_factory=dict)
    """Copies by component."""
    refused: AsleepError | None = None
    """Refusal of a call that does not wait."""
    empty: dict[str, int] = field(default_factory=dict)
    """Instances by endpoint, when all had slept for ten minutes."""
    waits: list[float] = field(default_factory=list)
    woken: dict[str, bytes] = field(default_factory=dict)
    counted: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Executed and refused requests by component, after it was woken."""
    loaded: dict[str, int] = field(default_factory=dict)
    """Copies under load."""
    models: list[dict[str, str]] = field(default_factory=list)
    """SageMaker's model by component, before and after the update."""
    during_update: list[str] = field(default_factory=list)
    """Outcomes of the requests meanwhile: the component, or an error."""
    left: Any = None
    """What is in the account after the deletion, and was before the deployment."""


class DeployedNames:
    """A copy of the project, deployed to a local AWS whose clock the test moves."""

    def __init__(self, project: Path, aws: LocalAws) -> None:
        self.project, self.aws = project, aws
        self.environment = aws.environment_over({**os.environ, "PATH": PATH}, **PLACE)
        self.body = (project / "examples/ranker/golden/request-rows.json").read_bytes()
        self.sagemaker = aws.client("sagemaker", **PLACE)

    def cdk(self, command: str, *arguments: str, set_to: tuple[str, ...] = ()) -> Ran:
        over = [word for pair in set_to for word in ("-c", pair)]
        words = (command, "-c", "environments=examples/variants", "sleeping/*", "components/*")
        ran = run_in(
            self.project,
            "cdk",
            *words,
            *arguments,
            *over,
            environment=self.environment,
            timeout_seconds=300,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran

    def servable(self, command: str, *arguments: str) -> Ran:
        words = (command, "components", "--environments", "examples/variants", *arguments)
        return run_in(
            self.project, "servable", *words, environment=self.environment, timeout_seconds=300
        )

    def client(self, component: str, **options: Any) -> Endpoint:
        session = boto3.session.Session(
            aws_access_key_id=ACCOUNT,
            aws_secret_access_key=self.aws.secret_access_key,
            region_name=REGION,
        )
        name, url = ENDPOINTS[component], self.aws.url
        return Endpoint(name, session=session, endpoint_url=url, component=component, **options)

    def invoke(self, component: str, **options: Any) -> bytes:
        with self.client(component, **options) as endpoint:
            return endpoint.invoke(self.body).body

    def copies(self, component: str) -> int:
        live = self.sagemaker.describe_inference_component(InferenceComponentName=component)
        return int(live["RuntimeConfig"]["CurrentCopyCount"])

    def model(self, component: str) -> str:
        live = self.sagemaker.describe_inference_component(InferenceComponentName=component)
        return str(live["Specification"]["ModelName"])

    def instances(self, endpoint: str) -> int:
        (variant,) = self.sagemaker.describe_endpoint(EndpointName=endpoint)["ProductionVariants"]
        return int(variant["CurrentInstanceCount"])

    def counted(self, component: str, metric: str) -> float:
        found = self.aws.client("cloudwatch", **PLACE).get_metric_statistics(
            Namespace="AWS/SageMaker",
            MetricName=metric,
            Dimensions=[{"Name": "InferenceComponentName", "Value": component}],
            StartTime="2020-01-01",
            EndTime="2100-01-01",
            Period=86400 * 365,
            Statistics=["Sum"],
        )["Datapoints"]
        return float(sum(point["Sum"] for point in found))


def sleep_and_wake(deployed: DeployedNames, seen: Seen) -> None:
    seen.alone = {component: deployed.invoke(component) for component in ENDPOINTS}
    runtime = deployed.aws.client("sagemaker-runtime", **PLACE)
    try:
        runtime.invoke_endpoint(EndpointName="ranker-shared", Body=deployed.body)
    except runtime.exceptions.ClientError as error:
        seen.nameless = error.response["Error"]["Message"]
    named = ("--component", "candidates", "--body", "examples/ranker/golden/request-rows.json")
    seen.commands["invoke"] = deployed.servable("invoke", *named)
    meant = [word for pair in FEW if pair.startswith("components.") for word in ("--set", pair)]
    seen.commands["verify"] = deployed.servable("verify", "--json", *meant)
    quickly = ("--users", "1", "--step-seconds", "0.5", "--least-seconds", "0.5")
    at = ("--target", "deployed", "--json")
    seen.commands["load"] = deployed.servable("load", *named, *at, *quickly)
    deployed.aws.advance(minutes=17)
    seen.after_17_minutes = {each: deployed.copies(each) for each in ENDPOINTS}
    deployed.aws.advance(minutes=27)
    seen.empty = {name: deployed.instances(name) for name in ENDPOINTS.values()}
    try:
        deployed.invoke(SLEEPING)
    except AsleepError as refused:
        seen.refused = refused

    def wait(seconds: float) -> None:
        deployed.aws.advance(seconds=seconds)

    for component in ENDPOINTS:
        options = {"wake_seconds": 900, "waiting": seen.waits.append, "sleep": wait}
        seen.woken[component] = deployed.invoke(component, **options)
        metrics = ("Invocations", "NoCapacityInvocationFailures")
        executed, refusals = (deployed.counted(component, metric) for metric in metrics)
        seen.counted[component] = executed, refusals


def load_and_update(deployed: DeployedNames, seen: Seen) -> None:
    with deployed.client(SLEEPING) as sleeping, deployed.client(RANKER) as ranker:
        for _ in range(5):
            for _ in range(12):
                sleeping.invoke(deployed.body)
                ranker.invoke(deployed.body)
            deployed.aws.advance(minutes=1)
    seen.loaded = {component: deployed.copies(component) for component in (SLEEPING, RANKER)}
    seen.models.append({component: deployed.model(component) for component in ENDPOINTS})
    done = threading.Event()

    def ask(component: str) -> None:
        with deployed.client(component) as endpoint:
            while not done.is_set():
                try:
                    endpoint.invoke(deployed.body)
                    seen.during_update.append(component)
                except PredictionError as error:
                    seen.during_update.append(str(error))
                done.wait(0.2)

    callers = [threading.Thread(target=ask, args=(component,)) for component in ENDPOINTS]
    for caller in callers:
        caller.start()
    try:
        deployed.cdk("deploy", "--require-approval", "never", set_to=(*FEW, *CHANGED))
    finally:
        done.set()
        for caller in callers:
            caller.join()
    seen.models.append({component: deployed.model(component) for component in ENDPOINTS})


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    project, seen = checkout(tmp_path_factory.mktemp("sleeping") / "project"), Seen()
    with running(seconds_per_minute=None, most_containers=1) as aws:
        deployed = DeployedNames(project, aws)
        bootstrapped(aws, **PLACE)
        before = inventory(aws, **PLACE)
        deployed.cdk("deploy", "--require-approval", "never", set_to=FEW)
        sleep_and_wake(deployed, seen)
        load_and_update(deployed, seen)
        deployed.cdk("destroy", "--force")
        seen.left = inventory(aws, **PLACE), before
        yield seen


pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def test_a_component_answers_whoever_names_it(seen: Seen) -> None:
    assert all(seen.alone.values())


def test_an_endpoint_of_components_refuses_who_names_none(seen: Seen) -> None:
    assert seen.nameless.startswith("Inference Component Name header is required")


def test_servable_invoke_asks_the_component_that_is_named(seen: Seen) -> None:
    answer, alone = seen.commands["invoke"].stdout, seen.alone[CANDIDATES]
    assert json.loads(answer) == json.loads(alone)


def test_servable_verify_finds_nothing_else_than_was_deployed(seen: Seen) -> None:
    assert json.loads(seen.commands["verify"].stdout)["differences"] == []


def test_servable_load_loads_the_component_that_is_named(seen: Seen) -> None:
    assert json.loads(seen.commands["load"].stdout)["asked"]["variant"] == CANDIDATES


def test_each_component_sleeps_after_its_own_minutes(seen: Seen) -> None:
    assert seen.after_17_minutes == {SLEEPING: 0, RANKER: 0, CANDIDATES: 1}


def test_when_all_of_its_components_sleep_an_endpoint_runs_no_instance(seen: Seen) -> None:
    assert seen.empty == {"ranker-sleeping": 0, "ranker-shared": 0}


def test_a_call_that_does_not_wait_is_refused_and_not_executed(seen: Seen) -> None:
    assert seen.refused is not None
    assert seen.refused.executed == "no"


def test_a_call_that_waits_gets_the_answer_of_before(seen: Seen) -> None:
    assert seen.woken == seen.alone


def test_a_call_that_wakes_says_that_it_waits(seen: Seen) -> None:
    assert seen.waits == [900, 900, 900]


def test_a_call_that_wakes_is_executed_once(seen: Seen) -> None:
    assert [executed for executed, _ in seen.counted.values()][:1] == [2]


def test_a_call_that_wakes_was_refused_before(seen: Seen) -> None:
    assert min(refusals for _, refusals in seen.counted.values()) >= 1


def test_under_load_there_are_three_copies(seen: Seen) -> None:
    assert seen.loaded == {SLEEPING: 3, RANKER: 3}


def test_an_update_changes_the_model_of_the_component_that_is_changed(seen: Seen) -> None:
    before, after = seen.models
    changed = {component for component in ENDPOINTS if before[component] != after[component]}
    assert changed == {SLEEPING, RANKER}


def test_no_request_fails_during_an_update(seen: Seen) -> None:
    assert set(seen.during_update) == set(ENDPOINTS)


def test_after_the_deletion_nothing_is_left(seen: Seen) -> None:
    left, before = seen.left
    assert left == before
