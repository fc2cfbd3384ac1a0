"""Metrics of what requests and containers take.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
"""

import os
import time
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from servable_local.aws.clock import ManualClock
from servable_local.aws.cloudwatch.metric_store import MetricStore
from servable_local.aws.sagemaker import published_metrics
from servable_local.aws.sagemaker.published_metrics import (
    Invocation,
    Utilization,
    publish_failure,
    publish_invocation,
    publish_scaling_metrics,
    publish_utilization,
)
from servable_scaling.alarms.query import Metric

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
        given = {"dimensions": NAMES, "concurrency": 2.5, "minute_ends": minute_ends}
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
