"""Metrics of what requests and containers take.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
"""

import os
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from botocore.exceptions import ClientError

from servable_local.aws.clock import ManualClock
from servable_local.aws.cloudwatch.api import convert_to_naive
from servable_local.aws.cloudwatch.metric_store import MetricStore
from servable_local.aws.sagemaker import published_metrics
from servable_local.aws.sagemaker.hosting import RegionalHosting
from servable_local.aws.sagemaker.published_metrics import (
    UTILIZATION_NAMESPACE,
    Invocation,
    Utilization,
    publish_failure,
    publish_invocation,
    publish_scaling_metrics,
    publish_utilization,
)
from servable_scaling.alarms.query import Metric
from tests.servable_local.aws.container_stand_in import StandIn
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.watched_endpoint import Watched

AT = datetime(2026, 1, 1)
NAMES = {"EndpointName": "ranker", "VariantName": "primary"}


class Store(MetricStore):
    """Samples by metric and the dimensions beyond endpoint and variant."""

    def parse_samples(self, **dimensions: str) -> dict[str, tuple[float, str]]:
        """{metric: (the sum of its samples, its unit)}"""
        wanted, end = {**NAMES, **dimensions}, AT + timedelta(days=1)
        metrics = [each for each in self.list_metrics() if dict(each.dimensions) == wanted]
        totals = {each: self.collect_samples(each, AT, end).total for each in metrics}
        return {each.name: (total, self.list_units(each)[0]) for each, total in totals.items()}


def invoked(status: int = 200, kind: str = "real_time", **more: Any) -> Store:
    store = Store()
    one = Invocation(status=status, instance_count=4, model_seconds=0.0015, overhead_seconds=-0.001)
    given: dict[str, Any] = {"dimensions": NAMES, "config": None, "kind": kind, **more}
    publish_invocation(store, ManualClock(AT), one, **given)
    return store


# --- requests
def test_requests_are_counted_timed_and_shared_as_their_kind_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    none, micro = "None", "Microseconds"
    assert invoked().parse_samples() == {
        "Invocations": (1, none), "InvocationsPerInstance": (0.25, none),
        "Invocation4XXErrors": (0, none), "Invocation5XXErrors": (0, none),
        "InvocationModelErrors": (0, none), "ModelLatency": (1500, micro),
        "OverheadLatency": (0, micro),
    }  # fmt: skip

    store = invoked(config="second")
    of_fleet = store.parse_samples(EndpointConfigName="second")
    assert of_fleet == store.parse_samples()
    found = invoked(pool=("ml.c5.xlarge", 2)).parse_samples(InstanceType="ml.c5.xlarge")
    assert (found["InvocationsPerInstance"][0], found["Invocations"][0]) == (0.5, 1)

    monkeypatch.setattr(published_metrics, "OF_BOTH_FLEETS", {"Invocations"})
    store = invoked(config="second")
    of_fleet = store.parse_samples(EndpointConfigName="second")
    assert {*store.parse_samples()} - {*of_fleet} == {"Invocations"}
    fewer = {"InvocationsPerInstance", "InvocationModelErrors"}
    for kind, left_out in (
        ("serverless", fewer),
        ("asynchronous", fewer | {"Invocations", "OverheadLatency"}),
    ):
        found = invoked(kind=kind).parse_samples()
        assert {*invoked().parse_samples()} - {*found} == left_out


def test_an_answer_counts_as_the_error_that_it_is() -> None:
    names = ("Invocation4XXErrors", "Invocation5XXErrors", "InvocationModelErrors")
    expected = {
        0: (0, 0, 1), 199: (0, 0, 1), 200: (0, 0, 0), 299: (0, 0, 0), 300: (0, 0, 1),
        399: (0, 0, 1), 400: (1, 0, 1), 499: (1, 0, 1), 500: (0, 1, 1), 599: (0, 1, 1),
        600: (0, 0, 1),
    }  # fmt: skip
    for status, errors in expected.items():
        found = invoked(status).parse_samples()
        assert tuple(found[name][0] for name in names) == errors, status


# --- without a request
def test_a_minute_without_a_request_has_a_zero_and_a_failure_one_count() -> None:
    minute = AT + timedelta(minutes=5)
    metric = Metric.from_dimensions("AWS/SageMaker", "InvocationsPerInstance", NAMES)
    given: dict[str, Any]
    cases = [(None, True, 1), (None, False, 0), (0, True, 1), (59, True, 1), (-10, True, 2)]
    for request_after_seconds, minute_ends, samples in cases:
        store = Store()
        if request_after_seconds is not None:
            at = minute + timedelta(seconds=request_after_seconds)
            store.add(metric, 1.0, unit="None", at=at)
        # The last second of the minute, in which it is published.
        end = minute + timedelta(seconds=59)
        names = ("ConcurrentRequestsPerModel", "InvocationsPerInstance")
        given = {
            "dimensions": NAMES,
            "names": names,
            "minute_ends": minute_ends,
            "concurrency": 2.5,
        }
        publish_scaling_metrics(store, end, **given)
        assert store.collect_samples(metric, AT, AT + timedelta(days=1)).count == samples
        assert store.parse_samples()["ConcurrentRequestsPerModel"] == (2.5, "None")

    store = Store()
    publish_failure(store, ManualClock(AT), "InvocationFailures", dimensions=NAMES)
    assert store.parse_samples() == {"InvocationFailures": (1, "Count")}


# --- what containers take
def test_what_a_container_takes_is_published() -> None:
    store = Store()
    percents = {"CPUUtilization": 50.0, "MemoryUtilization": 10.0}
    end, kind = AT + timedelta(minutes=1), "real_time"
    publish_utilization(store, end, percents, dimensions=NAMES, kind=kind, pools=["a", "a", "b"])
    found = [store.parse_samples(**of) for of in ({}, {"InstanceType": "a"})]
    used = [samples["CPUUtilization"] for samples in found]
    assert used == [(50, "Percent"), (100, "Percent")]
    first = [store.collect_samples(metric, AT, end).count for metric in store.list_metrics()]
    assert sorted(first) == [1, 1, 1, 1, 2, 2]

    store = Store()
    percents = {"CPUUtilization": 50.0, "MemoryUtilization": 10.0, "DiskUtilization": 1.0}
    publish_utilization(store, AT, percents, dimensions=NAMES, kind="serverless")
    assert [metric.name for metric in store.list_metrics()] == ["MemoryUtilization"]


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The measuring clock: its last entry is the time."""
    moments = [0.0]
    monkeypatch.setattr(published_metrics, "time", SimpleNamespace(monotonic=lambda: moments[-1]))
    return moments


def used(moments: list[float]) -> Utilization:
    return Utilization(_looked=moments[-1])


def test_a_container_s_memory_and_files_are_measured(moments: list[float], tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"x" * 1_000_000)
    container: Any = SimpleNamespace(pid=os.getpid(), folder=tmp_path)
    utilization = used(moments)
    moments.append(0.5)
    first = utilization.measure(container)
    began = time.process_time()
    while time.process_time() - began < 0.03:
        pass
    moments.append(10.5)
    second = utilization.measure(container)
    total = psutil.disk_usage(str(tmp_path)).total
    assert "CPUUtilization" not in first
    assert second["CPUUtilization"] >= 0.2  # of 0.03 s in 10 s, to the 10 ms of the kernel
    assert 100_000_000 / total <= first["DiskUtilization"] < 102_000_000 / total
    assert 0 < first["MemoryUtilization"] < 100


def test_nothing_to_measure_is_nothing(moments: list[float]) -> None:
    utilization = used(moments)
    moments.append(60.0)
    container: Any = SimpleNamespace(pid=2**22 + 1, folder=None)
    assert utilization.measure(container) == {"MemoryUtilization": 0}
    for seconds, pid in [(0.4, os.getpid()), (60.0, None)]:
        utilization = used(moments)
        moments.append(seconds)
        container = SimpleNamespace(pid=pid, folder=None)
        assert utilization.measure(container) == {}


# --- what ends while it is measured
def test_what_goes_meanwhile_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Ended:
        def children(self, *, recursive: bool) -> list[Any]:
            return []

        def cpu_times(self) -> Any:
            raise psutil.NoSuchProcess(1)

    monkeypatch.setattr(psutil, "Process", lambda pid: Ended())
    (tmp_path / "kept").write_bytes(b"abc")
    listed = [tmp_path / "gone", tmp_path / "kept"]
    monkeypatch.setattr(Path, "rglob", lambda self, pattern: iter(listed))
    container: Any = SimpleNamespace(pid=1, folder=tmp_path)
    found = Utilization(_looked=time.monotonic() - 60).measure(container)
    disk = 300 / psutil.disk_usage(str(tmp_path)).total
    assert found == {"MemoryUtilization": 0, "DiskUtilization": disk}


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
        assert {point["Unit"] for point in points} == {unit}
        assert [*of] == ["EndpointName", "VariantName"]


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


def published(config: dict[str, Any]) -> float:
    """Values of CPU utilization in five minutes, of which every 10 s is looked at."""
    used = [({"CPUUtilization": 1.0}, ())]
    variant = SimpleNamespace(name="primary", measure_utilization=lambda: used)
    fleet = SimpleNamespace(list_variants=lambda: [variant])
    endpoint = SimpleNamespace(name="ranker", kind="real_time", config=config, fleet=fleet)
    store = MetricStore()
    of_account = {"cloudwatch": Mock(metrics=store), "endpoints": {"ranker": endpoint}}
    hosting: Any = SimpleNamespace(**of_account, logs=Mock())
    for seconds in range(10, 310, 10):
        RegionalHosting.measure(hosting, AT + timedelta(seconds=seconds))
    metric = Metric.from_dimensions(UTILIZATION_NAMESPACE, "CPUUtilization", NAMES)
    return store.collect_samples(metric, AT, AT + timedelta(seconds=300)).count


def test_the_interval_of_utilization() -> None:
    assert published({}) == 5
    for seconds, count in [(10, 30), (120, 2)]:
        assert published({"MetricsConfig": {"MetricPublishFrequencyInSeconds": seconds}}) == count
