"""The snippets of docs/own-app.md import what they use, and the app of 20 lines is deployed as it is."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from servable_local.aws import running
from tests.checkouts import PATH, ROOT, assert_predicts, bootstrapped, succeed_in
from tests.conftest import RANKER

SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/own-app.md").read_text(), re.DOTALL)
# What the page calls the reader's own.
YOURS = "vpc = key = topic = SiteStack = object()\n"


def test_every_name_of_a_snippet_is_imported_by_it_or_by_one_above() -> None:
    command = (sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", "-")
    succeed_in(ROOT, *command, given=YOURS + "".join(SNIPPETS))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_app_of_twenty_lines_is_deployed_and_answers(tmp_path: Path) -> None:
    assert SNIPPETS[0].count("\n") <= 20
    (tmp_path / "app.py").write_text(SNIPPETS[0])
    shutil.copytree(RANKER, tmp_path / "export")
    with running() as aws:
        bootstrapped(aws)
        environment = aws.environment_over({**os.environ, "PATH": PATH, "PYTHONPATH": str(ROOT)})
        deploy = ("cdk", "deploy", "--require-approval", "never", "--app")
        app = f"{sys.executable} app.py"
        succeed_in(tmp_path, *deploy, app, environment=environment, timeout_seconds=500)
        assert_predicts(aws, "search")
        scaling = aws.client("application-autoscaling")
        targets = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")
        (target,) = targets["ScalableTargets"]
        assert (target["MinCapacity"], target["MaxCapacity"]) == (2, 6)
        alarms = aws.client("cloudwatch").describe_alarms(AlarmNamePrefix="search-primary-p99")
        assert [each["Threshold"] for each in alarms["MetricAlarms"]] == [80_000]
