"""CloudWatch's operations on metrics."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult, EmptyResult

from servable_local.aws.cloudwatch.alarms import CloudWatch
from servable_local.aws.cloudwatch.metric_store import periods
from servable_local.aws.errors import InvalidParameterValueError, ValidationError
from servable_local.aws.loopback import Regions
from servable_scaling.alarms.query import Metric, MetricQuery, queries
from servable_scaling.alarms.statistics import (
    Samples,
    UnknownStatisticError,
    check_statistic,
    percent_of,
    statistic,
)

_AWS_NAMESPACE = "AWS/"


def samples_of(datum: Mapping[str, Any]) -> Samples:
    samples = Samples()
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
        metric = Metric.named(parameters)
        store, points = self.here.metrics, []
        for start, end in periods(
            naive(parameters["StartTime"]), naive(parameters["EndTime"]), int(parameters["Period"])
        ):
            samples = store.between(metric, start, end, parameters.get("Unit"))
            values = {name: statistic(samples, name) for name in names}
            values = {name: value for name, value in values.items() if value is not None}
            if not values:
                continue
            point: dict[str, Any] = {"Timestamp": start, "Unit": store.unit(metric)}
            extended = {name: v for name, v in values.items() if percent_of(name) is not None}
            point |= {name: value for name, value in values.items() if name not in extended}
            points.append(point | ({"ExtendedStatistics": extended} if extended else {}))
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
            query = by_id[request["Id"]]
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
            label = query.metric.name if isinstance(query, MetricQuery) else request["Id"]
            results.append(
                {
                    "Id": request["Id"],
                    "Label": request.get("Label") or label,
                    "Timestamps": [start for start, _ in points],
                    "Values": [value for _, value in points],
                    "StatusCode": "Complete",
                }
            )
        return ActionResult({"MetricDataResults": results})

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
