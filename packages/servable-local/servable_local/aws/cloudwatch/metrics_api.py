"""CloudWatch's operations on metrics."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult, EmptyResult

from servable_local.aws.cloudwatch.alarms import CloudWatch
from servable_local.aws.cloudwatch.metric_store import periods
from servable_local.aws.errors import (
    InvalidParameterCombinationError,
    InvalidParameterValueError,
    ValidationError,
)
from servable_local.aws.loopback import Regions
from servable_scaling.alarms.query import (
    Metric,
    MetricQuery,
    Query,
    Samples,
    UnknownStatisticError,
    check_statistic,
    percent_of,
    queries,
    statistic,
)

_AWS_NAMESPACE = "AWS/"


_DASHBOARD_NAME = re.compile(r"[a-zA-Z0-9_-]+")
# Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricStatistics.html
_MOST_DATAPOINTS = 1440
_SHORT_PERIODS = (1, 5, 10, 20, 30)  # seconds, of high-resolution metrics


def samples_of(datum: Mapping[str, Any]) -> Samples:
    samples = Samples()
    for other in ("Values", "StatisticValues"):
        if "Value" in datum and other in datum:
            raise InvalidParameterCombinationError(
                f"The parameters MetricData.member.1.Value and MetricData.member.1.{other} "
                "are mutually exclusive and you have specified both."
            )
    if "Values" in datum:
        counts = datum.get("Counts") or [1.0] * len(datum["Values"])
        if len(counts) != len(datum["Values"]):
            raise InvalidParameterValueError(
                "The parameters MetricData.member.1.Values and MetricData.member.1.Counts "
                "must be of the same size."
            )
        for value, count in zip(datum["Values"], counts, strict=True):
            samples.add(float(value), float(count))
    elif "StatisticValues" in datum:
        values = datum["StatisticValues"]
        samples.add_set(
            count=float(values["SampleCount"]),
            total=float(values["Sum"]),
            least=float(values["Minimum"]),
            most=float(values["Maximum"]),
        )
    elif "Value" in datum:
        samples.add(float(datum["Value"]))
    else:
        raise InvalidParameterValueError(
            "At least one of the parameters MetricData.member.1.Value, "
            "MetricData.member.1.Values and MetricData.member.1.StatisticValues is required."
        )
    return samples


def naive(moment: Any) -> Any:
    """The moment as a naive datetime in UTC, as the clock has it."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    elif isinstance(moment, int | float):
        moment = datetime(1970, 1, 1) + timedelta(seconds=moment)
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        return moment.astimezone(UTC).replace(tzinfo=None)
    return moment


def _statistics(samples: Samples, names: Sequence[str]) -> dict[str, Any]:
    """As a datapoint has them: percentiles in a member of their own. Empty without samples."""
    every = {name: statistic(samples, name) for name in names}
    values: dict[str, Any] = {name: value for name, value in every.items() if value is not None}
    extended = {name: values.pop(name) for name in list(values) if percent_of(name) is not None}
    return values | ({"ExtendedStatistics": extended} if extended else {})


def _label(query: Query, all_of_them: Iterable[Query]) -> str | None:
    """Name of the metric, with the statistic or the period where another query of it has another."""
    if not isinstance(query, MetricQuery):
        return None
    same = [q for q in all_of_them if isinstance(q, MetricQuery) and q.metric == query.metric]
    parts = [query.metric.name]
    parts += [query.statistic] if len({q.statistic for q in same}) > 1 else []
    parts += [str(query.period_seconds)] if len({q.period_seconds for q in same}) > 1 else []
    return " ".join(parts)


class MetricsApi(CloudWatchResponse):
    """`cloudwatches` is set when the server is built. Dashboards remain moto's."""

    cloudwatches: ClassVar[Regions[CloudWatch]]

    @property
    def here(self) -> CloudWatch:
        return self.cloudwatches.of(self.current_account, self.region)

    def put_metric_data(self) -> ActionResult:
        namespace = self._get_param("Namespace")
        if namespace.startswith(_AWS_NAMESPACE):
            raise InvalidParameterValueError(
                f"The value {_AWS_NAMESPACE} for parameter Namespace is invalid."
            )
        for datum in self._get_param("MetricData", []):
            metric = Metric.named({**datum, "Namespace": namespace})
            at = naive(datum.get("Timestamp")) or self.here.clock.now()
            self.here.metrics.add_samples(
                metric, samples_of(datum), unit=datum.get("Unit", "None"), at=at
            )
        return EmptyResult()

    def get_metric_statistics(self) -> ActionResult:
        parameters = self._get_params()
        names = [*parameters.get("Statistics", []), *parameters.get("ExtendedStatistics", [])]
        if not names:
            raise ValidationError("Must specify either Statistics or ExtendedStatistics")
        try:
            for name in names:
                check_statistic(name)
        except UnknownStatisticError as error:
            raise InvalidParameterValueError(str(error)) from None
        metric, store = Metric.named(parameters), self.here.metrics
        first, last = naive(parameters["StartTime"]), naive(parameters["EndTime"])
        if first >= last:
            raise InvalidParameterValueError(
                "The parameter StartTime must be less than the parameter EndTime."
            )
        seconds = int(parameters["Period"])
        if seconds % 60 and seconds not in _SHORT_PERIODS:
            raise InvalidParameterValueError(
                f"The parameter Period must be 1, 5, 10, 20, 30, or a multiple of 60, not {seconds}."
            )
        count = int((last - first).total_seconds() / seconds)
        if count > _MOST_DATAPOINTS:
            raise InvalidParameterCombinationError(
                f"You have requested up to {count} datapoints, which exceeds the limit of "
                f"{_MOST_DATAPOINTS}. You may reduce the datapoints requested by increasing "
                "Period, or decreasing the time range."
            )
        points = [
            {"Timestamp": start, "Unit": unit, **values}
            for start, end in periods(first, last, seconds)
            for unit in store.units(metric)
            if parameters.get("Unit") in (None, unit)
            and (values := _statistics(store.between(metric, start, end, unit), names))
        ]
        return ActionResult({"Label": parameters["MetricName"], "Datapoints": points})

    def get_metric_data(self) -> ActionResult:
        parameters = self._get_params()
        requests = parameters.get("MetricDataQueries", [])
        try:
            by_id = queries(requests)
        except ValueError as error:
            raise ValidationError(str(error)) from None
        results = []
        for request in requests:
            if not request.get("ReturnData", True):
                continue
            query, messages = by_id[request["Id"]], []
            if isinstance(query, MetricQuery) and query.unit is None:
                units = sorted(self.here.metrics.units(query.metric))
                if len(units) > 1:  # the values of one, as on AWS, and not of all of them together
                    query = replace(query, unit=units[0])
                    text = f"Multiple units returned: '[{', '.join(units)}]'"
                    messages = [{"Code": "MultipleUnits", "Value": text}]
            points = [
                (start, value)
                for start, end in periods(
                    naive(parameters["StartTime"]),
                    naive(parameters["EndTime"]),
                    query.period_seconds,
                )
                if (value := query.value(self.here.metrics, start, end)) is not None
            ]
            if parameters.get("ScanBy", "TimestampDescending") == "TimestampDescending":
                points.reverse()
            label = _label(query, by_id.values()) or request["Id"]
            results.append(
                {
                    "Id": request["Id"],
                    "Label": request.get("Label") or label,
                    "Timestamps": [start for start, _ in points],
                    "Values": [value for _, value in points],
                    "StatusCode": "Complete",
                    "Messages": messages or None,
                }
            )
        return ActionResult({"MetricDataResults": results, "Messages": []})

    def put_dashboard(self) -> ActionResult:
        if not _DASHBOARD_NAME.fullmatch(self._get_param("DashboardName")):
            raise InvalidParameterValueError(
                "The value for field DashboardName contains invalid characters. It can only "
                "contain alphanumerics, dash (-) and underscore (_).\n"
            )
        return super().put_dashboard()

    def list_metrics(self) -> ActionResult:
        parameters = self._get_params()
        filters = {(d["Name"], d.get("Value")) for d in parameters.get("Dimensions", [])}
        shown = [
            {
                "Namespace": metric.namespace,
                "MetricName": metric.name,
                "Dimensions": [{"Name": n, "Value": v} for n, v in sorted(metric.dimensions)],
            }
            for metric in self.here.metrics.metrics()
            if parameters.get("Namespace") in (None, metric.namespace)
            and parameters.get("MetricName") in (None, metric.name)
            and all(
                any(name == n and value in (None, v) for n, v in metric.dimensions)
                for name, value in filters
            )
        ]
        return ActionResult({"Metrics": shown})
