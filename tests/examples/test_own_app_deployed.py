"""examples/own_app is deployed to a local AWS, answers, and a change of it is seen before it is deployed."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from servable_local.aws import LocalAws, running
from tests.checkouts import PATH, ROOT, Ran, bootstrapped, run_in

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

GOLDEN = ROOT / "examples" / "ranker" / "golden"
APP = "examples/own_app/app.py"


@dataclass(frozen=True)
class DeployedNames:
    """The example in a folder of its own, and the local AWS that it is deployed to."""

    project: Path
    aws: LocalAws

    @property
    def environment(self) -> dict[str, str]:
        return self.aws.environment_over({**os.environ, "PATH": PATH, "PYTHONPATH": str(ROOT)})

    def cdk(self, *arguments: str) -> Ran:
        command = ("cdk", *arguments, "search", "--app", f"{sys.executable} {APP}")
        return run_in(self.project, *command, environment=self.environment, timeout_seconds=500)

    def template(self) -> dict[str, dict[str, object]]:
        file = self.project / "cdk.out" / "search.template.json"
        found: dict[str, dict[str, object]] = json.loads(file.read_text())["Resources"]
        return found


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedNames]:
    project = tmp_path_factory.mktemp("search")
    for folder in ("ranker/model", "ranker/code", "ranker/golden", "own_app"):
        target = project / "examples" / folder
        shutil.copytree(ROOT / "examples" / folder, target, ignore=shutil.ignore_patterns("__py*"))
    with running() as aws:
        bootstrapped(aws)
        own = DeployedNames(project, aws)
        ran = own.cdk("deploy", "--require-approval", "never")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        yield own


@pytest.mark.parametrize("endpoint", ["search-ranking", "search-scores"])
def test_both_endpoints_answer_the_golden_request(deployed: DeployedNames, endpoint: str) -> None:
    answer = deployed.aws.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint,
        ContentType="application/json",
        Body=(GOLDEN / "request-rows.json").read_bytes(),
    )
    wanted = json.loads((GOLDEN / "answer-rows.json").read_text())["predictions"]
    assert json.loads(answer["Body"].read())["predictions"] == pytest.approx(wanted, rel=1e-5)


def test_the_function_asks_the_endpoint_that_its_variables_name(deployed: DeployedNames) -> None:
    (function,) = deployed.aws.client("lambda").list_functions()["Functions"]
    event = (GOLDEN / "request-rows.json").read_text()
    code = f"import ask; print(ask.handler({event}, None)['predictions'])"
    variables = function["Environment"]["Variables"]
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=deployed.project / "examples" / "own_app" / "function",
        # Bytecode beside the function would be another asset to `cdk diff`.
        env={**deployed.environment, **variables, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = json.loads((GOLDEN / "answer-rows.json").read_text())["predictions"]
    assert json.loads(ran.stdout) == pytest.approx(wanted, rel=1e-5)


def test_the_scaled_endpoint_begins_with_one_instance_and_the_other_with_its_minimum(
    deployed: DeployedNames,
) -> None:
    counts = [
        variant["InitialInstanceCount"]
        for resource in deployed.template().values()
        if resource["Type"] == "AWS::SageMaker::EndpointConfig"
        for variant in resource["Properties"]["ProductionVariants"]  # type: ignore[index]
    ]
    assert sorted(counts) == [1, 2]


def test_cdk_diff_after_one_change_shows_that_change(deployed: DeployedNames) -> None:
    app = deployed.project / APP
    written = app.read_text()
    app.write_text(
        written.replace('"ml.m5.large", min_instances=2)', '"ml.m5.large", min_instances=3)')
    )
    try:
        ran = deployed.cdk("diff", "--no-color", "--method", "template", "--output", "cdk.changed")
    finally:
        app.write_text(written)
    changed = [
        line.split("]", 1)[1].strip()
        for line in (ran.stdout + ran.stderr).splitlines()
        if "[-]" in line or "[+]" in line
    ]
    assert changed == ['"InitialInstanceCount": 2,', '"InitialInstanceCount": 3,']
