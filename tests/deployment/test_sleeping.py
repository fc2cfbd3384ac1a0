"""The preset that sleeps, deployed by the real CDK CLI: asleep, woken by the client, gone without a trace."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from servable_client import AsleepError, Endpoint
from servable_local.aws import LocalAws, running
from servable_local.aws.inventory import inventory
from tests.checkouts import PATH, Ran, bootstrapped, checkout, run_in

ACCOUNT, REGION = "111111111111", "eu-west-1"
PLACE = {"account": ACCOUNT, "region": REGION}
NAME, COMPONENT = "ranker-sleeping", "ranker-sleeping-primary"


class Sleeping:
    """A copy of the project, its preset deployed to a local AWS whose clock the test moves."""

    def __init__(self, project: Path, aws: LocalAws) -> None:
        self.project, self.aws = project, aws
        self.environment = aws.environment_over({**os.environ, "PATH": PATH}, **PLACE)
        bootstrapped(aws, **PLACE)
        self.before = inventory(aws, **PLACE)

    def cdk(self, command: str, *arguments: str) -> Ran:
        words = (command, "-c", "environments=examples/variants", "sleeping/*", *arguments)
        ran = run_in(self.project, "cdk", *words, environment=self.environment)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran

    def client(self, **options: Any) -> Endpoint:
        session = boto3.session.Session(
            aws_access_key_id=ACCOUNT,
            aws_secret_access_key=self.aws.secret_access_key,
            region_name=REGION,
        )
        return Endpoint(
            NAME, session=session, endpoint_url=self.aws.url, component=COMPONENT, **options
        )

    @property
    def running(self) -> tuple[int, int]:
        """Copies and instances."""
        sagemaker = self.aws.client("sagemaker", **PLACE)
        component = sagemaker.describe_inference_component(InferenceComponentName=COMPONENT)
        (variant,) = sagemaker.describe_endpoint(EndpointName=NAME)["ProductionVariants"]
        return component["RuntimeConfig"]["CurrentCopyCount"], variant["CurrentInstanceCount"]

    def counted(self, metric: str) -> float:
        found = self.aws.client("cloudwatch", **PLACE).get_metric_statistics(
            Namespace="AWS/SageMaker",
            MetricName=metric,
            Dimensions=[{"Name": "InferenceComponentName", "Value": COMPONENT}],
            StartTime="2020-01-01",
            EndTime="2100-01-01",
            Period=86400 * 365,
            Statistics=["Sum"],
        )["Datapoints"]
        return float(sum(point["Sum"] for point in found))


@pytest.fixture(scope="module")
def sleeping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sleeping]:
    project = checkout(tmp_path_factory.mktemp("sleeping") / "project")
    with running(seconds_per_minute=None, most_containers=1) as aws:
        made = Sleeping(project, aws)
        made.cdk("deploy", "--require-approval", "never")
        yield made


@pytest.mark.long
@pytest.mark.timeout(600)
def test_it_sleeps_is_woken_by_a_call_that_is_executed_once_and_leaves_nothing(
    sleeping: Sleeping,
) -> None:
    body = (sleeping.project / "examples/ranker/golden/request-rows.json").read_bytes()
    with sleeping.client() as ranker:
        first = ranker.invoke(body).body
        sleeping.aws.advance(minutes=17)
        asleep = sleeping.running
        sleeping.aws.advance(minutes=11)
        empty = sleeping.running
        with pytest.raises(AsleepError) as refused:
            ranker.invoke(body)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        sleeping.aws.advance(seconds=seconds)

    with sleeping.client(wake_seconds=900, waiting=waits.append, sleep=wait) as ranker:
        second = ranker.invoke(body).body
    woken = sleeping.running
    executed, failures = (
        sleeping.counted("Invocations"),
        sleeping.counted("NoCapacityInvocationFailures"),
    )
    sleeping.cdk("destroy", "--force")
    assert (asleep, empty, woken) == ((0, 1), (0, 0), (1, 1))
    assert (refused.value.executed, waits, second) == ("no", [900], first)
    assert (executed, failures >= 2) == (2, True)
    assert inventory(sleeping.aws, **PLACE) == sleeping.before
