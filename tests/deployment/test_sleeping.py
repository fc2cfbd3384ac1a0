"""Two presets of inference components, deployed by the real CDK CLI: one that sleeps, one with two models.

One deployment, one update and one deletion of both.
"""

import json
import threading
from pathlib import Path
from typing import Any

import boto3
import pytest

from servable_client import AsleepError, Endpoint, PredictionError
from servable_local.aws import LocalAws, running
from tests.checkouts import checkout
from tests.deployment.conftest import Deployment
from tests.servable_local.aws.inventory import inventory

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

ACCOUNT, REGION = "111111111111", "eu-west-1"
PLACE = {"account": ACCOUNT, "region": REGION}
SLEEPING = "ranker-sleeping-primary"
RANKER, CANDIDATES = "ranker-shared-ranker", "ranker-shared-candidates"
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


class DeployedNames(Deployment):
    """A copy of the project, deployed to a local AWS whose clock the test moves."""

    def __init__(self, project: Path, aws: LocalAws) -> None:
        super().__init__(project, aws, **PLACE)
        self.body = (project / "examples/ranker/golden/request-rows.json").read_bytes()
        self.sagemaker = self.client("sagemaker")

    def run_cdk(self, *arguments: str, set_to: tuple[str, ...] = ()) -> None:
        over = [word for pair in set_to for word in ("-c", pair)]
        stacks = ("-c", "environments=examples/variants", "sleeping/*", "components/*")
        self.cdk(*arguments, *stacks, *over)

    def ask(self, command: str, *arguments: str) -> Any:
        """Return the JSON that a command of `servable` prints."""
        words = (command, "components", "--environments", "examples/variants", *arguments)
        return json.loads(self.servable(*words).stdout)

    def endpoint(self, component: str, **options: Any) -> Endpoint:
        session = boto3.session.Session(
            aws_access_key_id=ACCOUNT,
            aws_secret_access_key=self.aws.secret_access_key,
            region_name=REGION,
        )
        name, url = ENDPOINTS[component], self.aws.url
        return Endpoint(name, session=session, endpoint_url=url, component=component, **options)

    def invoke(self, component: str, **options: Any) -> bytes:
        with self.endpoint(component, **options) as endpoint:
            return endpoint.invoke(self.body).body

    def live(self, component: str) -> dict[str, Any]:
        found = self.sagemaker.describe_inference_component(InferenceComponentName=component)
        return dict(found)

    def copies(self, component: str) -> int:
        return int(self.live(component)["RuntimeConfig"]["CurrentCopyCount"])

    def model(self, component: str) -> str:
        return str(self.live(component)["Specification"]["ModelName"])

    def instances(self, endpoint: str) -> int:
        (variant,) = self.sagemaker.describe_endpoint(EndpointName=endpoint)["ProductionVariants"]
        return int(variant["CurrentInstanceCount"])

    def counted(self, component: str, metric: str) -> float:
        found = self.client("cloudwatch").get_metric_statistics(
            Namespace="AWS/SageMaker",
            MetricName=metric,
            Dimensions=[{"Name": "InferenceComponentName", "Value": component}],
            StartTime="2020-01-01",
            EndTime="2100-01-01",
            Period=86400 * 365,
            Statistics=["Sum"],
        )["Datapoints"]
        return float(sum(point["Sum"] for point in found))


def answer_and_refuse_who_names_no_component(deployed: DeployedNames) -> dict[str, bytes]:
    """Each component's answer; also by commands."""
    alone = {component: deployed.invoke(component) for component in ENDPOINTS}
    assert all(alone.values())
    runtime = deployed.client("sagemaker-runtime")
    with pytest.raises(runtime.exceptions.ClientError) as refused:
        runtime.invoke_endpoint(EndpointName="ranker-shared", Body=deployed.body)
    said = refused.value.response["Error"]["Message"]
    assert said.startswith("Inference Component Name header is required")

    named = ("--component", "candidates", "--body", "examples/ranker/golden/request-rows.json")
    assert deployed.ask("invoke", *named) == json.loads(alone[CANDIDATES])
    meant = [word for pair in FEW if pair.startswith("components.") for word in ("--set", pair)]
    assert deployed.ask("verify", "--json", *meant)["differences"] == []
    quickly = ("--users", "1", "--step-seconds", "0.5", "--least-seconds", "0.5")
    loaded = deployed.ask("load", *named, "--target", "deployed", "--json", *quickly)
    assert loaded["asked"]["variant"] == CANDIDATES
    return alone


def sleep_and_wake(deployed: DeployedNames, alone: dict[str, bytes]) -> None:
    deployed.aws.advance(minutes=17)
    copies = {each: deployed.copies(each) for each in ENDPOINTS}
    assert copies == {SLEEPING: 0, RANKER: 0, CANDIDATES: 1}
    deployed.aws.advance(minutes=27)
    assert {deployed.instances(name) for name in ENDPOINTS.values()} == {0}
    with pytest.raises(AsleepError) as refused:
        deployed.invoke(SLEEPING)
    assert refused.value.executed == "no"

    def wait(seconds: float) -> None:
        deployed.aws.advance(seconds=seconds)

    for component in ENDPOINTS:
        waits: list[float] = []
        options = {"wake_seconds": 900, "waiting": waits.append, "sleep": wait}
        assert deployed.invoke(component, **options) == alone[component]
        assert waits == [900]
        assert deployed.counted(component, "NoCapacityInvocationFailures") >= 1
    # Before it slept and after: the call that woke it was executed once.
    assert deployed.counted(SLEEPING, "Invocations") == 2


def grow_under_load(deployed: DeployedNames) -> None:
    with deployed.endpoint(SLEEPING) as sleeping, deployed.endpoint(RANKER) as ranker:
        for _ in range(5):
            for _ in range(12):
                sleeping.invoke(deployed.body)
                ranker.invoke(deployed.body)
            deployed.aws.advance(minutes=1)
    assert [deployed.copies(component) for component in (SLEEPING, RANKER)] == [3, 3]


def update_without_a_failed_request(deployed: DeployedNames) -> None:
    before = {component: deployed.model(component) for component in ENDPOINTS}
    done, outcomes = threading.Event(), list[str]()

    def ask(component: str) -> None:
        with deployed.endpoint(component) as endpoint:
            while not done.is_set():
                try:
                    endpoint.invoke(deployed.body)
                    outcomes.append(component)
                except PredictionError as error:
                    outcomes.append(str(error))
                done.wait(0.2)

    callers = [threading.Thread(target=ask, args=(component,)) for component in ENDPOINTS]
    for caller in callers:
        caller.start()
    try:
        deployed.run_cdk("deploy", "--require-approval", "never", set_to=(*FEW, *CHANGED))
    finally:
        done.set()
        for caller in callers:
            caller.join()
    assert set(outcomes) == set(ENDPOINTS)
    changed = {name for name in ENDPOINTS if deployed.model(name) != before[name]}
    assert changed == {SLEEPING, RANKER}


def test_components_sleep_wake_grow_are_updated_and_deleted(tmp_path: Path) -> None:
    with running(seconds_per_minute=None, most_containers=1) as aws:
        deployed = DeployedNames(checkout(tmp_path / "project"), aws)
        deployed.run_cdk("deploy", "--require-approval", "never", set_to=FEW)
        alone = answer_and_refuse_who_names_no_component(deployed)
        sleep_and_wake(deployed, alone)
        grow_under_load(deployed)
        update_without_a_failed_request(deployed)
        deployed.run_cdk("destroy", "--force")
        assert inventory(aws, **PLACE) == deployed.before
