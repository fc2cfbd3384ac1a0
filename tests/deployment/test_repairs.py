"""Repairs of a deployed environment by a program that reads `--json` and follows the remedies literally.

The CDK CLI, the AWS CLI, and `servable` are the real ones; AWS is the local one.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.deployment.conftest import Deployment, bootstrapped_copy
from tests.repairs import Finding, Repairs

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

VERIFY, CHECK = "servable verify local", "servable check local"
FILE, CODE = "environments/local.toml", "examples/ranker/code/inference.py"
# The computer may be busy: no minute is slow enough for an alarm.
ALARMS = "\n[alarms]\np99_latency_ms = 5000\n"


def differences(parsed: Any) -> list[Finding]:
    return list(parsed["differences"])


def errors(parsed: Any) -> list[Finding]:
    return [each for each in parsed["local"] if each["severity"] == "error"]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A copy of the project whose local environment each test breaks, and leaves repaired."""
    with bootstrapped_copy(tmp_path_factory.mktemp("repaired")) as made:
        # Nobody is at a terminal to approve.
        cdk = json.loads((made.project / "cdk.json").read_text())
        (made.project / "cdk.json").write_text(json.dumps({**cdk, "requireApproval": "never"}))
        file = made.project / FILE
        file.write_text(file.read_text() + ALARMS)
        yield made


@pytest.fixture
def repairs(deployment: Deployment) -> Repairs:
    made = Repairs(deployment.project, deployment.environment)
    made.repair(VERIFY, differences)
    made.followed.clear()
    return made


def read(repairs: Repairs, file: str) -> str:
    return (repairs.root / file).read_text()


def write(repairs: Repairs, file: str, text: str) -> None:
    (repairs.root / file).write_text(text)


def test_what_is_not_deployed_is_deployed(deployment: Deployment) -> None:
    made = Repairs(deployment.project, deployment.environment)
    assert made.repair(VERIFY, differences)["verdict"] == "holds"


def test_a_rejected_deployment_is_repaired_by_its_check(repairs: Repairs) -> None:
    good = read(repairs, FILE)
    write(repairs, FILE, good.replace("max_instances", "max_instnces"))
    assert repairs.run("cdk deploy 'local/*'")[0] == 1
    assert repairs.repair(CHECK, errors)["verdict"] == "holds"
    assert repairs.run("cdk deploy 'local/*'")[0] == 0
    write(repairs, FILE, good)


def test_what_was_changed_by_hand_is_set_back(repairs: Repairs, deployment: Deployment) -> None:
    cloudwatch = deployment.aws.client("cloudwatch")
    cloudwatch.delete_alarms(AlarmNames=["ranker-local-primary-cpu"])
    cloudwatch.disable_alarm_actions(AlarmNames=["ranker-local-primary-memory"])
    assert repairs.repair(VERIFY, differences)["verdict"] == "holds"
    commands = sorted(remedy.partition("`")[2].split()[2] for remedy in repairs.followed)
    assert commands == ["enable-alarm-actions", "put-metric-alarm"]


def test_an_override_that_nobody_means_is_taken_back(repairs: Repairs) -> None:
    code, _ = repairs.run("cdk deploy 'local/*' -c local.variants.primary.max_instances=3")
    assert code == 0
    assert repairs.repair(VERIFY, differences)["verdict"] == "holds"
    assert len(repairs.followed) == 1


def test_an_update_that_was_rolled_back_keeps_what_runs(repairs: Repairs) -> None:
    good, code = read(repairs, FILE), read(repairs, CODE)
    write(repairs, CODE, code + '\nraise RuntimeError("broken by a test")\n')
    assert repairs.run("cdk deploy 'local/*'")[0] == 1
    assert repairs.repair(VERIFY, differences)["verdict"] == "holds"
    assert "--restore live --write" in repairs.followed[0]
    write(repairs, CODE, code)
    write(repairs, FILE, good)
