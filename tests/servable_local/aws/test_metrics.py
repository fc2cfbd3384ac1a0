"""What an invocation leaves in CloudWatch."""

from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.cloudwatch.api import convert_to_naive
from servable_local.aws.cloudwatch.metric_store import MetricStore
from servable_local.aws.sagemaker.hosting import RegionalHosting
from servable_local.aws.sagemaker.published_metrics import UTILIZATION_NAMESPACE
from servable_scaling.alarms.query import Metric
from tests.servable_local.aws.boto_members import named
from tests.servable_local.aws.container_stand_in import StandIn
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.watched_endpoint import Watched


@pytest.fixture
def container(watched: Watched) -> StandIn:
    """The container of the endpoint `ranker`, whose variant is said to have two instances."""
    mine = f"mine {watched.account.number}".encode()
    watched.account.deploy(serving(watched.account.put_archive(mine)))
    (found,) = watched.containers(mine)
    return found


def test_requests_are_counted_with_their_latency(watched: Watched, container: StandIn) -> None:
    watched.inside().overhead_seconds = 5.0
    container.seconds = 1.0
    watched.ask(3)
    errors = ("Invocation4XXErrors", "Invocation5XXErrors", "InvocationModelErrors")
    wanted = {"Invocations": 3, "InvocationsPerInstance": 1.5, **dict.fromkeys(errors, 0)}
    assert {name: watched.statistic(name, "Sum") for name in wanted} == wanted
    latencies = [watched.statistic(name, "Maximum") for name in ("ModelLatency", "OverheadLatency")]
    assert latencies == [1_000_000, 5_000_000]

    container.status = 500
    watched.ask()
    assert watched.statistic("Invocation5XXErrors", "Average") == 0.25
    runtime = watched.account.client("sagemaker-runtime")
    with pytest.raises(ClientError):
        runtime.invoke_endpoint(EndpointName="ranker", Body=b"x", TargetVariant="absent")
    assert watched.statistic("Invocations", "Sum") == 4

    listed = watched.account.client("cloudwatch").list_metrics(Namespace="AWS/SageMaker")
    for metric in listed["Metrics"]:
        name, of = metric["MetricName"], {d["Name"]: d["Value"] for d in metric["Dimensions"]}
        points = watched.account.datapoints(f"AWS/SageMaker:{name}", "Sum", **of)
        unit = "Microseconds" if name.endswith("Latency") else "None"
        assert ({point["Unit"] for point in points}, [*of]) == (
            {unit},
            ["EndpointName", "VariantName"],
        )


def _data(watched: Watched, *queries: dict[str, Any]) -> list[list[float]]:
    now, minute = watched.clock.now(), timedelta(minutes=1)
    found = watched.account.client("cloudwatch").get_metric_data(
        MetricDataQueries=queries, StartTime=now - 30 * minute, EndTime=now + minute,
        ScanBy="TimestampAscending",
    )  # fmt: skip
    return [result["Values"] for result in found["MetricDataResults"]]


def _sum(name: str, query_id: str, *, shown: bool = True) -> dict[str, Any]:
    dimensions = named(EndpointName="ranker", VariantName="primary")
    metric = {"Namespace": "AWS/SageMaker", "MetricName": name, "Dimensions": dimensions}
    stat = {"Metric": metric, "Period": 60, "Stat": "Sum"}
    return {"Id": query_id, "MetricStat": stat, "ReturnData": shown}


def test_metric_data_comes_minute_by_minute_and_takes_math(
    watched: Watched, container: StandIn
) -> None:
    watched.align()
    watched.minutes(1, requests=2)
    watched.ask(3)
    container.status = 500
    watched.ask()
    assert _data(watched, _sum("Invocations", "m")) == [[2, 4]]
    share = {"Id": "share", "Expression": "errors / all * 100"}
    errors = _sum("Invocation5XXErrors", "errors", shown=False)
    assert _data(watched, errors, _sum("Invocations", "all", shown=False), share) == [[0, 25]]


NOON = datetime(2026, 11, 23, 12)
WINDOW = {"StartTime": NOON, "EndTime": NOON + timedelta(minutes=10)}


def test_a_time_of_any_protocol_is_the_same_time_on_the_clock() -> None:
    utc, paris = NOON.replace(tzinfo=UTC), timezone(timedelta(hours=1))
    texts = ("2026-11-23T12:00:00", "2026-11-23T12:00:00Z", "2026-11-23T13:00:00+01:00")
    moments = (NOON, utc, datetime(2026, 11, 23, 13, tzinfo=paris))
    for moment in (*moments, *texts, int(utc.timestamp()), utc.timestamp()):
        assert convert_to_naive(moment) == NOON
    assert convert_to_naive(None) is None


@pytest.fixture
def cloudwatch(account: Account) -> Any:
    return account.client("cloudwatch")


def statistics(cloudwatch: Any, period_seconds: int = 60, **names: list[str]) -> Any:
    return cloudwatch.get_metric_statistics(
        Namespace="Own", MetricName="Calls", Period=period_seconds, **WINDOW, **names
    )["Datapoints"]


def put(cloudwatch: Any, value: float, at: datetime) -> None:
    datum = {"MetricName": "Calls", "Timestamp": at, "Value": value, "Unit": "Seconds"}
    cloudwatch.put_metric_data(Namespace="Own", MetricData=[datum])


def test_what_cannot_be_queried_is_refused(cloudwatch: Any) -> None:
    with pytest.raises(ClientError, match="Must specify either Statistics or ExtendedStatistics"):
        statistics(cloudwatch)
    with pytest.raises(ClientError, match="InvalidParameterValue.*Median"):
        statistics(cloudwatch, Statistics=["Median"])
    query = {"Id": "e", "Expression": "FORECAST(absent)"}
    with pytest.raises(ClientError) as caught:
        cloudwatch.get_metric_data(MetricDataQueries=[query], **WINDOW)
    assert caught.value.response["Error"]["Code"] == "ValidationError"


def test_percentiles_stand_beside_the_other_statistics_of_their_period(cloudwatch: Any) -> None:
    put(cloudwatch, 3, NOON + timedelta(seconds=70))
    (point,) = statistics(cloudwatch, Statistics=["Sum"], ExtendedStatistics=["p50"])
    # botocore gives times a zone.
    assert point.pop("Timestamp").replace(tzinfo=None) == NOON + timedelta(minutes=1)
    assert point == {"Unit": "Seconds", "Sum": 3, "ExtendedStatistics": {"p50": 3}}
    (point,) = statistics(cloudwatch, Statistics=["Maximum"])
    assert "ExtendedStatistics" not in point


def test_points_of_data_begin_at_multiples_of_their_period(cloudwatch: Any) -> None:
    put(cloudwatch, 1, NOON + timedelta(minutes=6))
    metric = {"Namespace": "Own", "MetricName": "Calls"}
    query = {"Id": "m", "MetricStat": {"Metric": metric, "Period": 300, "Stat": "Sum"}}
    (result,) = cloudwatch.get_metric_data(MetricDataQueries=[query], **WINDOW)["MetricDataResults"]
    times = [moment.replace(tzinfo=None) for moment in result["Timestamps"]]
    assert (times, result["Label"]) == ([NOON + timedelta(minutes=5)], "Calls")


def test_a_period_is_whole_minutes_or_a_short_one(cloudwatch: Any) -> None:
    for refused in (7, 90, 61):
        with pytest.raises(ClientError, match="InvalidParameterValue.*multiple of 60"):
            statistics(cloudwatch, refused, Statistics=["Sum"])
    for accepted in (1, 5, 10, 20, 30, 60, 120):
        assert statistics(cloudwatch, accepted, Statistics=["Sum"]) == []


START = datetime(2026, 11, 22, 12, 0)
OF = {"EndpointName": "ranker", "VariantName": "primary"}


def published(config: dict[str, Any]) -> float:
    """Values of CPU utilization in five minutes, of which every 10 s is looked at."""
    used = [({"CPUUtilization": 1.0}, ())]
    variant = SimpleNamespace(name="primary", measure_utilization=lambda: used)
    fleet = SimpleNamespace(list_variants=lambda: [variant])
    endpoint = SimpleNamespace(name="ranker", kind="real_time", config=config, fleet=fleet)
    store = MetricStore()
    hosting: Any = SimpleNamespace(
        endpoints={"ranker": endpoint},
        cloudwatch=SimpleNamespace(metrics=store),
        logs=SimpleNamespace(forward=lambda: None),
    )
    for seconds in range(10, 310, 10):
        RegionalHosting.measure(hosting, START + timedelta(seconds=seconds))
    metric = Metric.from_dimensions(UTILIZATION_NAMESPACE, "CPUUtilization", OF)
    return store.collect_samples(metric, START, START + timedelta(seconds=300)).count


def test_the_interval_of_utilization() -> None:
    assert published({}) == 5
    for seconds, count in [(10, 30), (120, 2)]:
        assert published({"MetricsConfig": {"MetricPublishFrequencyInSeconds": seconds}}) == count
