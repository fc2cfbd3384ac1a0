"""environments/local.toml deployed once, with the real CDK CLI, to a local AWS of its own."""

import json
import os
from collections.abc import Iterator
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

    def __init__(self, project: Path, aws: LocalAws) -> None:
        self.project = project
        self.aws = aws
        self.before: Inventory = []
        self.first: Ran
        """The deployment that all tests begin with."""

    @property
    def environment(self) -> dict[str, str]:
        return self.aws.environment_over({**os.environ, "PATH": PATH})

    def bootstrap(self) -> None:
        bootstrapped(self.aws)
        self.before = inventory(self.aws)

    def cdk(self, *arguments: str) -> Ran:
        return run_in(self.project, "cdk", *arguments, environment=self.environment)

    def deploy(self, *arguments: str) -> Ran:
        ran = self.cdk("deploy", "local/*", "--require-approval", "never", *arguments)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran

    def fail(self) -> Ran:
        """Deploys code with which the container does not start. A broken model is seen before."""
        file = self.project / "examples" / "ranker" / "code" / "inference.py"
        good = file.read_bytes()
        file.write_bytes(good + b'\nraise RuntimeError("broken by a test")\n')
        try:
            return self.cdk("deploy", "local/*", "--require-approval", "never")
        finally:
            file.write_bytes(good)

    def template(self) -> dict[str, Any]:
        (file,) = (self.project / "cdk.out" / "assembly-local").glob("*.template.json")
        parsed: dict[str, Any] = json.loads(file.read_text())
        return parsed

    def made(self) -> Inventory:
        """What exists beyond the bootstrap."""
        return sorted(set(inventory(self.aws)) - set(self.before))

    def archive(self) -> bytes:
        """The object that the deployed model names."""
        sagemaker = self.aws.client("sagemaker")
        (model,) = sagemaker.list_models()["Models"]
        described = sagemaker.describe_model(ModelName=model["ModelName"])
        url = described["PrimaryContainer"]["ModelDataUrl"]
        bucket, _, name = url.removeprefix("s3://").partition("/")
        body: bytes = self.aws.client("s3").get_object(Bucket=bucket, Key=name)["Body"].read()
        return body


@contextmanager
def bootstrapped_copy(folder: Path) -> Iterator[Deployment]:
    """A copy of the project in `folder`, and a local AWS with nothing but the bootstrap."""
    project = checkout(folder / "project")
    with running() as aws:
        made = Deployment(project, aws)
        made.bootstrap()
        yield made


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with bootstrapped_copy(tmp_path_factory.mktemp("deployed")) as made:
        # They stop nobody but themselves.
        (made.project / "environments" / "staging.toml").write_text('extends = "base"\n')
        (made.project / "environments" / "torn.toml").write_text("not toml")
        made.first = made.deploy()
        yield made
