"""A container's output is in its log group: read, queried, and counted as other lines are."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws.clock import TICK_SECONDS, ManualClock
from servable_local.aws.sagemaker.container import ContainerLogs
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account

GROUP = "/aws/sagemaker/Endpoints/ranker"


def deploy(account: Account, text: str) -> None:
    template = serving(account.put_archive(b"a"), variables={"WRITES": text})
    assert account.deploy(template) == "CREATE_COMPLETE"


def messages(account: Account, pattern: str = "") -> list[str]:
    found = account.client("logs").filter_log_events(logGroupName=GROUP, filterPattern=pattern)
    return [event["message"] for event in found["events"]]


def test_lines_are_in_a_stream_of_their_instance(account: Account, clock: ManualClock) -> None:
    deploy(account, "first\n\nsecond\nunfinished")
    clock.advance(seconds=TICK_SECONDS)
    logs = account.client("logs")
    (stream,) = logs.describe_log_streams(logGroupName=GROUP)["logStreams"]
    variant, instance = stream["logStreamName"].split("/")
    assert (variant, instance[:2], len(instance)) == ("primary", "i-", 19)
    assert messages(account) == ["first", "second"]
    clock.advance(seconds=TICK_SECONDS)
    assert messages(account) == ["first", "second"]
    account.delete_endpoint("ranker")
    assert messages(account) == ["first", "second", "unfinished"]


def test_a_saved_query_finds_lines(account: Account, clock: ManualClock) -> None:
    deploy(account, "ERROR one\nfine\n")
    clock.advance(seconds=TICK_SECONDS)
    logs = account.client("logs")
    (event,) = logs.filter_log_events(logGroupName=GROUP, filterPattern="ERROR")["events"]
    at = event["timestamp"] // 1000
    query = logs.start_query(
        logGroupName=GROUP,
        startTime=at - 60,
        endTime=at + 60,
        queryString="fields @message | filter @message like /ERROR/",
    )
    results = logs.get_query_results(queryId=query["queryId"])["results"]
    found = [field["value"] for row in results for field in row if field["field"] == "@message"]
    assert "ERROR one" in found


def test_a_metric_filter_counts_lines(account: Account, clock: ManualClock) -> None:
    logs, began = account.client("logs"), clock.now()
    logs.create_log_group(logGroupName=GROUP)
    logs.put_metric_filter(
        logGroupName=GROUP,
        filterName="errors",
        filterPattern="ERROR",
        metricTransformations=[
            {"metricNamespace": "Own", "metricName": "Errors", "metricValue": "1"}
        ],
    )
    deploy(account, "ERROR one\nfine\nERROR two\n")
    clock.advance(minutes=1)
    points = account.client("cloudwatch").get_metric_statistics(
        Namespace="Own",
        MetricName="Errors",
        StartTime=began - timedelta(minutes=1),
        EndTime=clock.now() + timedelta(minutes=1),
        Period=60,
        Statistics=["Sum"],
    )["Datapoints"]
    assert sum(point["Sum"] for point in points) == 2


def test_the_output_of_a_container_that_ends_is_kept(account: Account, clock: ManualClock) -> None:
    text = "it breaks, and its last line has no end"
    account.deploy(serving(account.put_archive(b"BROKEN"), variables={"WRITES": text}))
    assert messages(account) == [text]

    account = account.another()
    deploy(account, "first\nlast")
    clock.advance(seconds=TICK_SECONDS)
    account.client("logs").delete_log_group(logGroupName=GROUP)
    account.delete_endpoint("ranker")
    clock.advance(seconds=TICK_SECONDS)
    assert account.client("logs").describe_log_groups()["logGroups"] == []


@pytest.fixture
def written() -> list[Any]:
    return []


def test_a_long_line_is_in_pieces(tmp_path: Path, written: list[Any], launcher: Launcher) -> None:
    logs = ContainerLogs(tmp_path, lambda group, stream, lines, create: written.extend(lines))

    def start(log: Path) -> Any:
        log.write_bytes(b"x" * 600_000 + b"\nshort\n" + b"y" * 1_200_000)
        return launcher(None, {})

    process = logs.start(start, GROUP, "primary")
    logs.forward()
    logs.forward()
    process.close()
    assert [len(line) for line in written[:4]] == [262_144, 262_144, 75_712, 5]
    assert sum(map(len, written[4:])) == 1_200_000
    assert max(map(len, written)) == 262_144
