"""environments/prod.toml deployed and updated: canary, rollback alarms, another account and region.

With one model server and two workers instead of 4 and 16: they are started three times.
"""

import json
import os
from collections.abc import Iterator

import pytest

from servable_local.aws import LocalAws, running
from tests.checkouts import PATH, Ran, bootstrapped, checkout, run_in

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]  # two deployments in one fixture
FEWER = {
    "tfs_processes    = 4": "tfs_processes    = 1",
    "gunicorn_workers = 16": "gunicorn_workers = 2",
}
WHO = {"account": "333333333333", "region": "eu-west-1"}


class Production:
    def __init__(self, aws: LocalAws, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.aws = aws
        self._project = checkout(tmp_path_factory.mktemp("production") / "project")
        file = self._project / "environments" / "prod.toml"
        text = file.read_text(encoding="utf-8")
        for stated, fewer in FEWER.items():
            assert stated in text
            text = text.replace(stated, fewer)
        file.write_text(text, encoding="utf-8")

    @property
    def environment(self) -> dict[str, str]:
        return self.aws.environment_over({**os.environ, "PATH": PATH}, **WHO)

    def bootstrap(self) -> None:
        bootstrapped(self.aws, **WHO)

    def cdk(self, *arguments: str) -> Ran:
        ran = run_in(self._project, "cdk", *arguments, environment=self.environment)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran

    def deploy(self, *overrides: str) -> Ran:
        chosen = [part for override in overrides for part in ("-c", override)]
        return self.cdk("deploy", "prod/*", "--require-approval", "never", *chosen)

    def list_rollback_alarms(self) -> set[str]:
        cloudwatch = self.aws.client("cloudwatch", **WHO)
        found = cloudwatch.describe_alarms(AlarmNamePrefix="ranker-prod-rollback-")["MetricAlarms"]
        return {one["AlarmName"] for one in found}

    def watched_by(self) -> set[str]:
        """The alarms that the live endpoint's last update was watched by."""
        endpoint = self.aws.client("sagemaker", **WHO).describe_endpoint(EndpointName="ranker-prod")
        rollback = endpoint["LastDeploymentConfig"]["AutoRollbackConfiguration"]
        return {alarm["AlarmName"] for alarm in rollback["Alarms"]}


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Production]:
    # An update bakes for twelve minutes of the clock.
    with running(seconds_per_minute=0.5) as aws:
        made = Production(aws, tmp_path_factory)
        made.bootstrap()
        made.deploy()
        yield made


def test_an_update_is_watched_by_three_alarms_of_its_own_and_answers(
    production: Production,
) -> None:
    before = production.list_rollback_alarms()
    production.deploy("prod.variants.primary.container.tfs_processes=2")
    after = production.list_rollback_alarms()
    assert (len(before), len(after), before & after) == (3, 3, set())
    assert production.watched_by() == after

    row = {"feat_ids": [1] * 39, "feat_vals": [1] * 39}
    answer = production.aws.client("sagemaker-runtime", **WHO).invoke_endpoint(
        EndpointName="ranker-prod",
        ContentType="application/json",
        Body=json.dumps({"instances": [row]}).encode(),
    )
    assert answer["InvokedProductionVariant"] == "primary"
    subscribed = production.aws.client("sns", **WHO).list_subscriptions()["Subscriptions"]
    assert [one["Endpoint"] for one in subscribed] == ["oncall@example.com"]
