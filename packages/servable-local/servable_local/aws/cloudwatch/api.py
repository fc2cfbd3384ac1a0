"""CloudWatch's operations on metrics and alarms."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, cast

from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult, EmptyResult

from servable_local.aws.cloudwatch.alarms import ACTIONS, Alarm, CloudWatch, Kind
from servable_local.aws.cloudwatch.metric_store import periods
from servable_local.aws.errors import (
    InvalidParameterCombinationError,
    InvalidParameterValueError,
    ResourceNotFoundError,
    ValidationError,
)
from servable_local.aws.loopback import Regions
from servable_local.aws.resources.resource_type import refusal, unmet
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

# Where the names of errors come from, which JSON and CBOR say.
_CHECKS, _SHAPES = "com.amazon.coral.validate", "com.amazonaws.cloudwatch.v2010_08_01"
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


class CloudWatchApi(CloudWatchResponse):
    """Metrics and alarms are ours; dashboards and insight rules remain moto's."""

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

    def serialized(self, action_result: ActionResult) -> tuple[int, dict[str, str], Any]:
        """moto's answer in AWS's words, as they were recorded of each protocol."""
        status, headers, body = cast(tuple[int, Any, Any], super().serialized(action_result))
        listed, error = self._get_action() == "DescribeAlarms", action_result.result
        if "json" not in self.headers.get("Content-Type", ""):
            if isinstance(error, Exception):
                body = re.sub(r"<message>.*?</message>|<[Mm]essage ?/>", "", body, flags=re.DOTALL)
            elif listed:  # of a kind that no client's model has
                body = body.replace("<MetricAlarms", "<LogAlarms/><MetricAlarms", 1)
            return status, headers, body
        headers["Content-Type"] = "application/x-amz-json-1.0"
        if isinstance(error, Exception):
            kind = json.loads(body)["__type"].rpartition("#")[2]
            space = _CHECKS if kind == "ValidationException" else _SHAPES
            said = {"message": getattr(error, "message", "")}
            body = json.dumps({"__type": f"{space}#{kind}", **(said if said["message"] else {})})
            # The query protocol's status is for those who ask in its mode.
            status = status if self.headers.get("x-amzn-query-mode") == "true" else 400
        elif listed:
            body = json.dumps({**json.loads(body), "LogAlarms": []})
        return status, headers, body

    def put_metric_alarm(self) -> ActionResult:
        return self._put("MetricAlarm")

    def put_composite_alarm(self) -> ActionResult:
        return self._put("CompositeAlarm")

    def _put(self, kind: Kind) -> ActionResult:
        request = dict(self._get_params())
        if problems := unmet(request, "cloudwatch", f"Put{kind}"):
            raise ValidationError(refusal(problems))
        tags = {tag["Key"]: tag["Value"] for tag in request.pop("Tags", None) or []}
        try:
            self.here.alarms.put(kind, request, tags)
        except ValueError as error:
            raise ValidationError(str(error)) from None
        return EmptyResult()

    def describe_alarms(self) -> ActionResult:
        # As on AWS: composite alarms are only listed for those who ask for them.
        kinds = self._get_param("AlarmTypes") or ["MetricAlarm"]
        names, prefix = self._get_param("AlarmNames"), self._get_param("ActionPrefix")
        alarms = [
            alarm
            for alarm in self.here.alarms.all()
            if (not names or alarm.name in names)
            and alarm.name.startswith(self._get_param("AlarmNamePrefix") or "")
            and self._get_param("StateValue") in (None, alarm.state)
            and (not prefix or any(action.startswith(prefix) for action in alarm.actions))
        ]

        def shown(kind: Kind) -> list[dict[str, Any]]:
            return [a.describe() for a in alarms if a.kind == kind and kind in kinds]

        return ActionResult(
            {"MetricAlarms": shown("MetricAlarm"), "CompositeAlarms": shown("CompositeAlarm")}
        )

    def describe_alarms_for_metric(self) -> ActionResult:
        metric = Metric.named(self._get_params())
        alarms = [
            alarm.describe()
            for alarm in self.here.alarms.all()
            if "MetricName" in alarm.request and Metric.named(alarm.request) == metric
        ]
        return ActionResult({"MetricAlarms": alarms})

    def describe_alarm_history(self) -> ActionResult:
        parameters = self._get_params()
        kinds = parameters.get("AlarmTypes") or ["MetricAlarm"]
        start, end = naive(parameters.get("StartDate")), naive(parameters.get("EndDate"))
        items = [
            item
            for alarm in self.here.alarms.all()
            if parameters.get("AlarmName") in (None, alarm.name)
            and (alarm.kind in kinds or parameters.get("AlarmName") == alarm.name)
            for item in alarm.history
            if parameters.get("HistoryItemType") in (None, item["HistoryItemType"])
            and (start is None or item["Timestamp"] >= start)
            and (end is None or item["Timestamp"] <= end)
        ]
        # Within one moment in the order in which it happened.
        items.sort(key=lambda item: item["Timestamp"])
        if parameters.get("ScanBy", "TimestampDescending") == "TimestampDescending":
            items.reverse()
        return ActionResult({"AlarmHistoryItems": items[: int(parameters.get("MaxRecords", 100))]})

    def set_alarm_state(self) -> ActionResult:
        state = self._get_param("StateValue")
        if state not in ACTIONS:
            raise ValidationError(
                f"1 validation error detected: Value '{state}' at 'stateValue' failed to satisfy "
                "constraint: Member must satisfy enum value set: [INSUFFICIENT_DATA, ALARM, OK]"
            )
        alarm = self.here.alarms.get(self._get_param("AlarmName"))
        if alarm is None:
            raise ResourceNotFoundError("")  # AWS gives no message either
        reason, data = self._get_param("StateReason"), self._get_param("StateReasonData") or ""
        self.here.alarms.set_state(alarm.name, state, reason, data)
        return EmptyResult()

    def delete_alarms(self) -> ActionResult:
        self.here.alarms.delete(self._get_param("AlarmNames", []))
        return EmptyResult()

    def enable_alarm_actions(self) -> ActionResult:
        return self._enable(True)

    def disable_alarm_actions(self) -> ActionResult:
        return self._enable(False)

    def _enable(self, enabled: bool) -> ActionResult:
        for name in self._get_param("AlarmNames", []):
            self._alarm(name).request["ActionsEnabled"] = enabled
        return EmptyResult()

    def _alarm(self, name: str) -> Alarm:
        alarm = self.here.alarms.get(name)
        if alarm is None:
            raise ResourceNotFoundError(f"The alarm {name} does not exist.")
        return alarm

    @property
    def _tags(self) -> dict[str, str]:
        return self._alarm(self._get_param("ResourceARN")).tags

    def list_tags_for_resource(self) -> ActionResult:
        # AWS says of an alarm that is not there that it has no tags.
        alarm = self.here.alarms.get(self._get_param("ResourceARN"))
        tags = alarm.tags.items() if alarm else ()
        return ActionResult({"Tags": [{"Key": key, "Value": value} for key, value in tags]})

    def tag_resource(self) -> ActionResult:
        self._tags.update({tag["Key"]: tag["Value"] for tag in self._get_param("Tags", [])})
        return EmptyResult()

    def untag_resource(self) -> ActionResult:
        for key in self._get_param("TagKeys", []):
            self._tags.pop(key, None)
        return EmptyResult()
