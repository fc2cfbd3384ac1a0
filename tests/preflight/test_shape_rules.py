"""What a file cannot say: refused as it is read, on both sides of the bound."""

from pathlib import Path

import pytest

from infra.preflight.check import check
from tests.findings import message
from tests.preflight.overlay import overlaid

# By fault: lines over a valid file.
REFUSED = {
    "a canary over 50 %": 'rollout = { strategy = "canary", canary_percent = 51 }',
    "a linear step under 10 %": 'rollout = { strategy = "linear", step_percent = 9 }',
    "a linear step over 50 %": 'rollout = { strategy = "linear", step_percent = 51 }',
    "a rolling batch under 5 %": 'rollout = { strategy = "rolling", batch_percent = 4 }',
    "a bake over an hour": 'rollout = { strategy = "canary", bake_minutes = 61 }',
    "no model server": "variants.primary.container.tfs_processes = 0",
    "an alarm's window over a day": "alarms.window_minutes = 1441",
    "a latency alarm in microseconds": "alarms.p99_latency_ms = 100000",
    "an endpoint's name of 64 characters": f'endpoint.name = "{"a" * 64}"',
    "an underscore in an endpoint's name": 'endpoint.name = "my_endpoint"',
    "a volume over 512 GB": "variants.primary.volume_gb = 513",
    "a download timeout over an hour": "variants.primary.download_timeout_seconds = 3601",
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_a_file_cannot_say_is_refused(project: Path, fault: str) -> None:
    assert "parameters" in [finding.rule for finding in check(overlaid(project, REFUSED[fault]))]


@pytest.mark.parametrize(
    "lines",
    [
        'rollout = { strategy = "canary", canary_percent = 50 }',
        'rollout = { strategy = "linear", step_percent = 10 }',
        'rollout = { strategy = "linear", step_percent = 50 }',
        'rollout = { strategy = "rolling", batch_percent = 5 }',
        'rollout = { strategy = "canary", bake_minutes = 60 }',
        "variants.primary.container.tfs_processes = 1",
        "variants.primary.container.gunicorn_workers = 0",
        'region = "eusc-de-east-1"',
        "alarms.window_minutes = 60",
        "alarms.p99_latency_ms = 60000",
        f'endpoint.name = "{"a" * 63}"',
        'endpoint.name = "my-endpoint"',
        "variants.primary.volume_gb = 512",
        "variants.primary.download_timeout_seconds = 3600",
        "variants.primary.min_instances = 1",
    ],
)
def test_the_last_value_that_aws_takes_is_taken(project: Path, lines: str) -> None:
    assert "parameters" not in [finding.rule for finding in check(overlaid(project, lines))]


def test_a_refusal_says_value_range_and_key(project: Path) -> None:
    found = check(overlaid(project, 'rollout = { strategy = "canary", canary_percent = 90 }'))
    assert message(found[0]) == (
        (
            "rollout.canary_percent",
            "90 is out of range",
            "1 or more and 50 or less",
            "set 50, the nearest",
        )
    )
