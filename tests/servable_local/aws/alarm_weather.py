"""Makes an alarm's condition hold, or not, by the metrics that it looks at."""

from collections.abc import Mapping
from typing import Any

from infra.catalog.metrics import unit
from servable_local.aws.clock import ManualClock
from servable_local.aws.cloudwatch.api import CloudWatchApi
from servable_local.aws.cloudwatch.metric_store import MetricStore
from servable_local.aws.local_aws import REGION
from servable_scaling.alarms.query import Metric


class Weather:
    """A minute's good or bad samples for one alarm, as SageMaker would publish them."""

    def __init__(self, account: str, clock: ManualClock) -> None:
        self._clock = clock
        self._account = account

    @property
    def _store(self) -> MetricStore:
        return CloudWatchApi.cloudwatches.of(self._account, REGION).metrics

    def sample(self, alarm: Mapping[str, Any], *, bad: bool) -> None:
        """`alarm`: its properties in the template."""
        if "Metrics" in alarm:
            self._computed(alarm, bad)
        else:
            threshold = float(alarm["Threshold"])
            # Where nothing at all is allowed, one is too many.
            self._add(alarm, threshold * 1.01 or 1 if bad else threshold * 0.1)

    def _computed(self, alarm: Mapping[str, Any], bad: bool) -> None:
        if "-rollback-" in alarm["AlarmName"]:
            self._beside_old_fleet(alarm, bad)
            return
        by_name = {
            metric["MetricStat"]["Metric"]["MetricName"]: metric["MetricStat"]["Metric"]
            for metric in alarm["Metrics"]
            if "MetricStat" in metric
        }
        if alarm["ComparisonOperator"] == "LessThanThreshold":  # no traffic
            if not bad:
                self._add(by_name["Invocations"], 1)
            return
        most = round(float(alarm["Threshold"]) + 0.5)
        for _ in range(7):  # requests, each answered by one of so many instances
            self._add(by_name["Invocations"], 1)
            self._add(by_name["InvocationsPerInstance"], 1 / (most if bad else most - 1))

    def _beside_old_fleet(self, alarm: Mapping[str, Any], bad: bool) -> None:
        """A request to the new fleet, refused or answered, and an answered one to the old fleet."""
        of = {
            one["Id"]: one["MetricStat"]["Metric"]
            for one in alarm["Metrics"]
            if "MetricStat" in one
        }
        self._add(of["new_errors"], float(bad))
        if of["errors"]["MetricName"] != "Invocation5XXErrors":  # those would page for the variant
            self._add(of["errors"], float(bad))
            self._add(of["errors"], 0.0)

    def _add(self, metric: Mapping[str, Any], value: float) -> None:
        dimensions = {
            dimension["Name"]: dimension["Value"] for dimension in metric.get("Dimensions", [])
        }
        namespace, name = metric["Namespace"], metric["MetricName"]
        self._store.add(
            Metric.of(namespace, name, dimensions),
            value,
            unit=unit(name),
            at=self._clock.now(),
        )
