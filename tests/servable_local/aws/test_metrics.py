"""What an invocation leaves in CloudWatch."""

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.servable_local.aws.container_stand_in import StandIn
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.watched_endpoint import Watched


@pytest.fixture
def container(watched: Watched) -> StandIn:
    """The container of the endpoint `ranker`, whose variant is said to have two instances."""
    mine = f"mine {watched.account.number}".encode()
    watched.account.deploy(serving(watched.account.put_archive(mine)))
    (found,) = watched.containers(mine)
    return found


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Invocations", 3),
        ("InvocationsPerInstance", 1.5),
        ("Invocation4XXErrors", 0),
        ("Invocation5XXErrors", 0),
        ("InvocationModelErrors", 0),
    ],
)
@pytest.mark.usefixtures("container")
def test_three_answered_requests_sum_up_to(watched: Watched, name: str, wanted: float) -> None:
    watched.ask(3)
    assert watched.statistic(name, "Sum") == wanted


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "Invocation4XXErrors"),
        (503, "Invocation5XXErrors"),
        (400, "InvocationModelErrors"),
        (503, "InvocationModelErrors"),
    ],
)
def test_an_error_is_counted_by_its_kind(
    watched: Watched, container: StandIn, status: int, name: str
) -> None:
    container.status = status
    watched.ask()
    assert watched.statistic(name, "Sum") == 1


def test_a_broken_connection_is_a_model_error(watched: Watched, container: StandIn) -> None:
    container.hangs_up = True
    watched.ask()
    assert watched.statistic("InvocationModelErrors", "Sum") == 1
    assert watched.statistic("Invocation5XXErrors", "Sum") == 0


def test_the_average_of_errors_is_their_share(watched: Watched, container: StandIn) -> None:
    watched.ask(3)
    container.status = 500
    watched.ask()
    assert watched.statistic("Invocation5XXErrors", "Average") == 0.25


def test_model_latency_is_in_microseconds(watched: Watched, container: StandIn) -> None:
    container.seconds = 5.0
    watched.ask()
    assert watched.statistic("ModelLatency", "p99") == 5_000_000


def test_what_sagemaker_adds_is_overhead(watched: Watched, container: StandIn) -> None:
    watched.inside().overhead_seconds = 5.0
    container.seconds = 1.0
    watched.ask()
    found = [watched.statistic(name, "Maximum") for name in ("ModelLatency", "OverheadLatency")]
    assert found == [1_000_000, 5_000_000]


@pytest.mark.usefixtures("container")
def test_metrics_have_their_units_and_dimensions(watched: Watched) -> None:
    watched.ask()
    assert {unit for name, unit in _units(watched) if name.endswith("Latency")} == {"Microseconds"}
    assert {unit for name, unit in _units(watched) if not name.endswith("Latency")} == {"None"}
    metrics = watched.account.client("cloudwatch").list_metrics(Namespace="AWS/SageMaker")
    found = {tuple(d["Name"] for d in metric["Dimensions"]) for metric in metrics["Metrics"]}
    assert found == {("EndpointName", "VariantName")}


def _units(watched: Watched) -> set[tuple[str, str]]:
    cloudwatch = watched.account.client("cloudwatch")
    now = watched.clock.now()
    return {
        (metric["MetricName"], point["Unit"])
        for metric in cloudwatch.list_metrics(Namespace="AWS/SageMaker")["Metrics"]
        for point in cloudwatch.get_metric_statistics(
            **metric,
            StartTime=now - timedelta(hours=1),
            EndTime=now + timedelta(hours=1),
            Period=3600,
            Statistics=["Sum"],
        )["Datapoints"]
    }


def test_a_refused_request_is_not_counted(watched: Watched, container: StandIn) -> None:
    runtime = watched.account.client("sagemaker-runtime")
    with pytest.raises(ClientError):
        runtime.invoke_endpoint(EndpointName="ranker", Body=b"x", TargetVariant="absent")
    assert watched.statistic("Invocations", "Sum") is None


def _data(watched: Watched, *queries: dict[str, Any]) -> list[list[float]]:
    found = watched.account.client("cloudwatch").get_metric_data(
        MetricDataQueries=list(queries),
        StartTime=watched.clock.now() - timedelta(minutes=30),
        EndTime=watched.clock.now() + timedelta(minutes=1),
        ScanBy="TimestampAscending",
    )
    return [result["Values"] for result in found["MetricDataResults"]]


def _sum(name: str, query_id: str, *, shown: bool = True) -> dict[str, Any]:
    dimensions = [
        {"Name": "EndpointName", "Value": "ranker"},
        {"Name": "VariantName", "Value": "primary"},
    ]
    metric = {"Namespace": "AWS/SageMaker", "MetricName": name, "Dimensions": dimensions}
    stat = {"Metric": metric, "Period": 60, "Stat": "Sum"}
    return {"Id": query_id, "MetricStat": stat, "ReturnData": shown}


@pytest.mark.usefixtures("container")
def test_metric_data_comes_minute_by_minute(watched: Watched) -> None:
    watched.align()
    watched.minutes(1, requests=2)
    watched.minutes(1, requests=3)
    assert _data(watched, _sum("Invocations", "m")) == [[2, 3]]


def test_metric_data_takes_math(watched: Watched, container: StandIn) -> None:
    watched.align()
    watched.ask(3)
    container.status = 500
    watched.ask()
    share = {"Id": "share", "Expression": "errors / all * 100"}
    queries = [
        _sum("Invocation5XXErrors", "errors", shown=False),
        _sum("Invocations", "all", shown=False),
        share,
    ]
    assert _data(watched, *queries) == [[25]]


def test_nobody_but_aws_publishes_in_its_namespace(watched: Watched) -> None:
    with pytest.raises(ClientError, match="Namespace"):
        watched.account.client("cloudwatch").put_metric_data(
            Namespace="AWS/SageMaker", MetricData=[{"MetricName": "Invocations", "Value": 1}]
        )
