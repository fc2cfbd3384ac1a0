"""The snippets of docs/own-app.md import what they use, and the app of 20 lines is deployed as it is."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from servable_local.aws import running
from tests.checkouts import PATH, ROOT, bootstrapped, run_in

SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/own-app.md").read_text(), re.DOTALL)
# What the page calls the reader's own.
YOURS = "vpc = key = topic = SiteStack = object()\n"
RANKER = ROOT / "examples" / "ranker"


def test_every_name_of_a_snippet_is_imported_by_it_or_by_one_above() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", "-"],
        input=YOURS + "".join(SNIPPETS),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_app_of_twenty_lines_is_deployed_and_answers(tmp_path: Path) -> None:
    assert SNIPPETS[0].count("\n") <= 20
    (tmp_path / "app.py").write_text(SNIPPETS[0])
    shutil.copytree(RANKER / "model", tmp_path / "export")
    with running() as aws:
        bootstrapped(aws)
        environment = aws.environment_over({**os.environ, "PATH": PATH, "PYTHONPATH": str(ROOT)})
        command = ("cdk", "deploy", "--app", f"{sys.executable} app.py")
        ran = run_in(
            tmp_path, *command, "--require-approval", "never", environment=environment,
            timeout_seconds=500,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr
        answer = aws.client("sagemaker-runtime").invoke_endpoint(
            EndpointName="search",
            ContentType="application/json",
            Body=(RANKER / "golden" / "request-rows.json").read_bytes(),
        )
        wanted = json.loads((RANKER / "golden" / "answer-rows.json").read_text())["predictions"]
        found = json.loads(answer["Body"].read())["predictions"]
        assert found == pytest.approx(wanted, rel=1e-5)
        (target,) = aws.client("application-autoscaling").describe_scalable_targets(
            ServiceNamespace="sagemaker"
        )["ScalableTargets"]
        assert (target["MinCapacity"], target["MaxCapacity"]) == (2, 6)
        alarms = aws.client("cloudwatch").describe_alarms(AlarmNamePrefix="search-primary-p99")
        assert [each["Threshold"] for each in alarms["MetricAlarms"]] == [80_000]
