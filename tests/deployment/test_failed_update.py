"""An update to a model that cannot be loaded, with the real CDK CLI: it goes back by itself."""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from servable_local.aws import EmbeddedAws, running
from servable_local.aws.embedded_aws import ACCOUNT, REGION
from tests.checkouts import PATH, ROOT, Ran, checkout, run_in

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]  # three runs of the CLI in one fixture
GOLDEN = ROOT / "examples" / "ranker" / "golden" / "request-rows.json"


@dataclass
class Failed:
    """The failed `cdk deploy`, and what requests got while it ran."""

    aws: EmbeddedAws
    ran: Ran
    answered: int
    errors: list[str]


@pytest.fixture(scope="module", params=["code", "variables"])
def failed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Failed]:
    project = checkout(tmp_path_factory.mktemp("failing") / "project")
    with running() as aws:
        environment = aws.environment_over({**os.environ, "PATH": PATH})
        deploy = ["deploy", "local/*", "--require-approval", "never"]
        for arguments in (["bootstrap", f"aws://{ACCOUNT}/{REGION}"], deploy):
            ran = run_in(project, "cdk", *arguments, environment=environment)
            assert ran.returncode == 0, ran.stdout + ran.stderr
        _break(project, request.param)
        done, errors, answered = threading.Event(), list[str](), list[int]()

        def ask() -> None:
            runtime, body = aws.client("sagemaker-runtime"), GOLDEN.read_bytes()
            while not done.wait(0.05):
                try:
                    runtime.invoke_endpoint(
                        EndpointName="ranker-local", ContentType="application/json", Body=body
                    )["Body"].read()
                    answered.append(1)
                except Exception as error:
                    errors.append(str(error))

        caller = threading.Thread(target=ask)
        caller.start()
        try:
            ran = run_in(project, "cdk", *deploy, environment=environment)
        finally:
            done.set()
            caller.join()
        yield Failed(aws, ran, len(answered), errors)


def _break(project: Path, what: str) -> None:
    if what == "code":
        code = project / "examples" / "ranker" / "code" / "inference.py"
        code.write_text(code.read_text() + '\nraise RuntimeError("broken by a test")\n')
    else:
        folder = project / "examples" / "ranker" / "model" / "1" / "variables"
        data = next(folder.glob("variables.data-*"))
        data.write_bytes(b"\0" * data.stat().st_size)


def test_the_cli_says_that_it_was_rolled_back(failed: Failed) -> None:
    assert "UPDATE_ROLLBACK_COMPLETE:" in failed.ran.stdout + failed.ran.stderr


def test_the_stack_is_rolled_back(failed: Failed) -> None:
    stacks = failed.aws.client("cloudformation").describe_stacks()["Stacks"]
    states = {one["StackName"]: one["StackStatus"] for one in stacks}
    assert states["ranker-local-endpoint"] == "UPDATE_ROLLBACK_COMPLETE"


def test_the_cli_exits_with_an_error(failed: Failed) -> None:
    assert failed.ran.returncode == 1


def test_the_old_endpoint_answered_every_request_meanwhile(failed: Failed) -> None:
    assert failed.errors == []
    assert failed.answered > 0


def test_the_old_endpoint_is_in_service(failed: Failed) -> None:
    described = failed.aws.client("sagemaker").describe_endpoint(EndpointName="ranker-local")
    assert described["EndpointStatus"] == "InService"
