"""A deployment whose model cannot be loaded is taken back by itself. With the real CDK CLI."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.checkouts import ROOT, Ran
from tests.deployment.conftest import Deployment, bootstrapped_copy

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]  # three runs of the CLI in one fixture
GOLDEN = ROOT / "examples" / "ranker" / "golden" / "request-rows.json"


@dataclass
class Failed:
    """The failed `cdk deploy`, what requests got while it ran, and what was there after it."""

    ran: Ran
    answered: int
    errors: list[str]
    stack: str
    endpoint: str


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Deployed once: whatever a test does is taken back at its end."""
    with bootstrapped_copy(tmp_path_factory.mktemp("failing")) as made:
        made.deploy()
        yield made


@pytest.fixture(scope="module")
def failed(deployed: Deployment) -> Failed:
    done, errors, answered = threading.Event(), list[str](), list[int]()

    def ask() -> None:
        runtime, body = deployed.aws.client("sagemaker-runtime"), GOLDEN.read_bytes()
        while not done.wait(0.05):
            try:
                runtime.invoke_endpoint(
                    EndpointName="ranker-local", ContentType="application/json", Body=body
                )["Body"].read()
                answered.append(1)
            except Exception as error:
                errors.append(str(error))

    caller = threading.Thread(target=ask)
    with broken(deployed.project):
        caller.start()
        try:
            ran = deployed.cdk("deploy", "local/*", "--require-approval", "never")
        finally:
            done.set()
            caller.join()
    (stack,) = deployed.aws.client("cloudformation").describe_stacks(
        StackName="ranker-local-endpoint"
    )["Stacks"]
    endpoint = deployed.aws.client("sagemaker").describe_endpoint(EndpointName="ranker-local")
    return Failed(ran, len(answered), errors, stack["StackStatus"], endpoint["EndpointStatus"])


@contextmanager
def broken(project: Path) -> Iterator[None]:
    """The ranker's code is such that the container does not start. A broken model is seen before."""
    file = project / "examples" / "ranker" / "code" / "inference.py"
    before = file.read_bytes()
    file.write_bytes(before + b'\nraise RuntimeError("broken by a test")\n')
    yield
    file.write_bytes(before)


def test_the_cli_says_that_it_was_rolled_back(failed: Failed) -> None:
    assert "UPDATE_ROLLBACK_COMPLETE:" in failed.ran.stdout + failed.ran.stderr


def test_the_stack_is_rolled_back(failed: Failed) -> None:
    assert failed.stack == "UPDATE_ROLLBACK_COMPLETE"


def test_the_cli_exits_with_an_error(failed: Failed) -> None:
    assert failed.ran.returncode == 1


def test_the_old_endpoint_answered_every_request_meanwhile(failed: Failed) -> None:
    assert failed.errors == []
    assert failed.answered > 0


def test_the_old_endpoint_is_in_service(failed: Failed) -> None:
    assert failed.endpoint == "InService"
