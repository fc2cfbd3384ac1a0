"""The project deployed, with the real CDK CLI, to a local AWS of its own."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws import LocalAws, running
from tests.checkouts import PATH, Ran, bootstrapped, checkout, run_in
from tests.servable_local.aws.inventory import inventory

Inventory = list[tuple[str, str]]


class Deployment:
    """A copy of the project, and the local AWS it is deployed to."""

    def __init__(self, project: Path, aws: LocalAws, **place: str) -> None:
        """Create the stack of `cdk bootstrap`. `place`: account and region, if not the local AWS's own."""
        self.project, self.aws, self.place = project, aws, place
        bootstrapped(aws, **place)
        self.before: Inventory = inventory(aws, **place)
        self.first: Ran
        """The deployment that all tests begin with."""
        given = {**os.environ, "PATH": PATH, "PYTHONPATH": str(project)}
        self.environment = aws.environment_over(given, **place)

    def run(self, *command: str) -> Ran:
        return run_in(self.project, *command, environment=self.environment, timeout_seconds=300)

    def cdk(self, *arguments: str) -> Ran:
        ran = self.run("cdk", *arguments)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran

    def deploy(self, *arguments: str) -> Ran:
        """Deploy local/*, or the stacks that are named first."""
        chosen = arguments if arguments and "/" in arguments[0] else ("local/*", *arguments)
        return self.cdk("deploy", "--require-approval", "never", *chosen)

    def servable(self, *arguments: str) -> Ran:
        return self.run(sys.executable, "-m", "servable", *arguments)

    def client(self, service: str) -> Any:
        return self.aws.client(service, **self.place)

    def fail(self) -> Ran:
        """Deploys code with which the container does not start. A broken model is seen before."""
        file = self.project / "examples" / "ranker" / "code" / "inference.py"
        good = file.read_bytes()
        file.write_bytes(good + b'\nraise RuntimeError("broken by a test")\n')
        try:
            return self.run("cdk", "deploy", "local/*", "--require-approval", "never")
        finally:
            file.write_bytes(good)

    def template(self) -> dict[str, Any]:
        (file,) = (self.project / "cdk.out" / "assembly-local").glob("*.template.json")
        return dict(json.loads(file.read_text()))

    def made(self) -> Inventory:
        """What exists beyond the bootstrap."""
        return sorted(set(inventory(self.aws, **self.place)) - set(self.before))

    def archive(self) -> bytes:
        """The object that the deployed model names."""
        url = self.container()["ModelDataUrl"]
        bucket, _, name = url.removeprefix("s3://").partition("/")
        body: bytes = self.client("s3").get_object(Bucket=bucket, Key=name)["Body"].read()
        return body

    def container(self) -> dict[str, Any]:
        """The container of the only model."""
        sagemaker = self.client("sagemaker")
        (model,) = sagemaker.list_models()["Models"]
        return dict(sagemaker.describe_model(ModelName=model["ModelName"])["PrimaryContainer"])


@contextmanager
def bootstrapped_copy(
    folder: Path, *, place: Mapping[str, str] | None = None, **clock: Any
) -> Iterator[Deployment]:
    """A copy of the project in `folder`, and a local AWS with nothing but the bootstrap."""
    project = checkout(folder / "project")
    with running(**clock) as aws:
        yield Deployment(project, aws, **place or {})


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with bootstrapped_copy(tmp_path_factory.mktemp("deployed")) as made:
        # They stop nobody but themselves.
        (made.project / "environments" / "staging.toml").write_text('extends = "base"\n')
        (made.project / "environments" / "torn.toml").write_text("not toml")
        made.first = made.deploy()
        yield made
