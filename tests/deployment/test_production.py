"""environments/prod.toml deployed and updated: canary, rollback alarms, another account and region.

With one model server and two workers instead of 4 and 16: they are started three times.
"""

import json
from pathlib import Path

import pytest

from tests.deployment.conftest import bootstrapped_copy

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]  # two deployments in one test
FEWER = {
    "tfs_processes    = 4": "tfs_processes    = 1",
    "gunicorn_workers = 16": "gunicorn_workers = 2",
}
WHO = {"account": "333333333333", "region": "eu-west-1"}


def test_an_update_is_watched_by_three_alarms_of_its_own_and_answers(tmp_path: Path) -> None:
    # An update bakes for twelve minutes of the clock.
    with bootstrapped_copy(tmp_path, place=WHO, seconds_per_minute=0.5) as made:
        file = made.project / "environments" / "prod.toml"
        text = file.read_text(encoding="utf-8")
        for stated, fewer in FEWER.items():
            assert stated in text
            text = text.replace(stated, fewer)
        file.write_text(text, encoding="utf-8")

        def list_rollback_alarms() -> set[str]:
            prefix, cloudwatch = "ranker-prod-rollback-", made.client("cloudwatch")
            found = cloudwatch.describe_alarms(AlarmNamePrefix=prefix)["MetricAlarms"]
            return {one["AlarmName"] for one in found}

        made.deploy("prod/*")
        before = list_rollback_alarms()
        made.deploy("prod/*", "-c", "prod.variants.primary.container.tfs_processes=2")
        after = list_rollback_alarms()
        assert (len(before), len(after), before & after) == (3, 3, set())
        endpoint = made.client("sagemaker").describe_endpoint(EndpointName="ranker-prod")
        rollback = endpoint["LastDeploymentConfig"]["AutoRollbackConfiguration"]
        assert {alarm["AlarmName"] for alarm in rollback["Alarms"]} == after

        row = {"feat_ids": [1] * 39, "feat_vals": [1] * 39}
        answer = made.client("sagemaker-runtime").invoke_endpoint(
            EndpointName="ranker-prod",
            ContentType="application/json",
            Body=json.dumps({"instances": [row]}).encode(),
        )
        assert answer["InvokedProductionVariant"] == "primary"
        subscribed = made.client("sns").list_subscriptions()["Subscriptions"]
        assert [one["Endpoint"] for one in subscribed] == ["oncall@example.com"]
