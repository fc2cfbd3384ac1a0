"""The deploying workflow's own shell, step by step, against the embedded AWS."""

import os
import subprocess
from pathlib import Path

import pytest

from local.aws import running
from local.aws.embedded_aws import ACCOUNT, REGION
from tests.checkouts import PATH, ROOT, checkout
from tests.deployment.conftest import Deployment
from tests.pipelines.workflows import STEPS

# Installing is what made this test's own machine; the rest is run as it stands.
INSTALLS = "Install what deploys"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_steps_deploy_and_verify_an_environment(tmp_path: Path) -> None:
    project = checkout(tmp_path / "project")
    (project / ".venv").symlink_to(ROOT / ".venv")
    (project / "node_modules").symlink_to(ROOT / "node_modules")
    with running() as aws:
        assert (
            Deployment(project, aws).cdk("bootstrap", f"aws://{ACCOUNT}/{REGION}").returncode == 0
        )
        told = {**os.environ, "PATH": PATH, "PYTHONPATH": str(project), "ENVIRONMENT": "local"}
        environment = aws.environment_over(told)
        for step in STEPS:
            if step.file.stem != "deploy-environment" or step.name == INSTALLS:
                continue
            ran = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", step.script],
                cwd=project,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=200,
            )
            assert ran.returncode == 0, f"{step.name}: {ran.stdout}{ran.stderr}"
