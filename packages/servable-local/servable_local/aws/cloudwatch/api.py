"""CloudWatch's operations on metrics and alarms."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, ClassVar, cast

from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult, EmptyResult

from servable_local.aws.cloudwatch.alarms import ACTIONS, Alarm, CloudWatch, Kind
from servable_local.aws.cloudwatch.metric_store import split_into_periods
from servable_local.aws.errors import AwsError, InvalidParameterValueError, ValidationError
from servable_local.aws.loopback import Regions
from servable_local.aws.resources.resource_type import format_violations, list_violations
from servable_scaling.alarms.query import (
    Metric,
    MetricQuery,
    Query,
    Samples,
    UnknownStatisticError,
    check_statistic,
    compute_statistic,
    parse_percent,
    parse_queries,
)

# Namespaces of error names in JSON.
_CHECKS, _SHAPES = "com.amazon.coral.validate", "com.amazonaws.cloudwatch.v2010_08_01"
_AWS_NAMESPACE = "AWS/"
_DASHBOARD_NAME = re.compile(r"[a-zA-Z0-9_-]+")
# Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricStatistics.html
_MOST_DATAPOINTS = 1440
_SHORT_PERIODS = (1, 5, 10, 20, 30)  # seconds, of high-resolution metrics


def parse_samples(datum: Mapping[str, Any]) -> Samples:
    samples = Samples()
    for other in ("Values", "StatisticValues"):
        if "Value" in datum and other in datum:
            raise AwsError(
                "InvalidParameterCombination",
                f"The parameters MetricData.member.1.Value and MetricData.member.1.{other} "
                "are mutually exclusive and you have specified both.",
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
        names = ("SampleCount", "Sum", "Minimum", "Maximum")
        count, total, least, most = (float(values[name]) for name in names)
        samples.add_set(count=count, total=total, least=least, most=most)
    elif "Value" in datum:
        samples.add(float(datum["Value"]))
    else:
        raise InvalidParameterValueError(
            "At least one of the parameters MetricData.member.1.Value, "
            "MetricData.member.1.Values and MetricData.member.1.StatisticValues is required."
        )
    return samples


def convert_to_naive(moment: Any) -> Any:
    """Convert a moment to a naive datetime in UTC, which the clock uses."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    elif isinstance(moment, int | float):
        moment = datetime(1970, 1, 1) + timedelta(seconds=moment)
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        return moment.astimezone(UTC).replace(tzinfo=None)
    return moment


def _compute_statistics(samples: Samples, names: Sequence[str]) -> dict[str, Any]:
    """Compute a datapoint's statistics, percentiles in a separate member. Empty without samples."""
    every = {name: compute_statistic(samples, name) for name in names}
    values: dict[str, Any] = {name: value for name, value in every.items() if value is not None}
    extended = {name: values.pop(name) for name in list(values) if parse_percent(name) is not None}
    return values | ({"ExtendedStatistics": extended} if extended else {})


def _build_label(query: Query, all_of_them: Iterable[Query]) -> str | None:
    """Return the metric's name, plus the statistic or period if another query of it differs."""
    if not isinstance(query, MetricQuery):
        return None
    same = [q for q in all_of_them if isinstance(q, MetricQuery) and q.metric == query.metric]
    parts = [query.metric.name]
    parts += [query.statistic] if len({q.statistic for q in same}) > 1 else []
    parts += [str(query.period_seconds)] if len({q.period_seconds for q in same}) > 1 else []
    return " ".join(parts)


class CloudWatchApi(CloudWatchResponse):
    """The API of CloudWatch: metrics and alarms are ours, dashboards and insight rules moto's."""

    cloudwatches: ClassVar[Regions[CloudWatch]]

    @property
    def cloudwatch(self) -> CloudWatch:
        return self.cloudwatches.provide_service(self.current_account, self.region)

    def put_metric_data(self) -> ActionResult:
        namespace = self._get_param("Namespace")
        if namespace.startswith(_AWS_NAMESPACE):
            raise InvalidParameterValueError(
                f"The value {_AWS_NAMESPACE} for parameter Namespace is invalid."
            )
        for datum in self._get_param("MetricData", []):
            metric = Metric.from_request({**datum, "Namespace": namespace})
            at = convert_to_naive(datum.get("Timestamp")) or self.cloudwatch.clock.now()
            samples, unit = parse_samples(datum), datum.get("Unit", "None")
            self.cloudwatch.metrics.add_samples(metric, samples, unit=unit, at=at)
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
        metric, store = Metric.from_request(parameters), self.cloudwatch.metrics
        first, last = (convert_to_naive(parameters[f"{side}Time"]) for side in ("Start", "End"))
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
            raise AwsError(
                "InvalidParameterCombination",
                f"You have requested up to {count} datapoints, which exceeds the limit of "
                f"{_MOST_DATAPOINTS}. You may reduce the datapoints requested by increasing "
                "Period, or decreasing the time range.",
            )
        units = [u for u in store.list_units(metric) if parameters.get("Unit") in (None, u)]
        points = []
        for (start, end), unit in product(split_into_periods(first, last, seconds), units):
            samples = store.collect_samples(metric, start, end, unit)
            if values := _compute_statistics(samples, names):
                points.append({"Timestamp": start, "Unit": unit, **values})
        return ActionResult({"Label": parameters["MetricName"], "Datapoints": points})

    def get_metric_data(self) -> ActionResult:
        parameters = self._get_params()
        requests = parameters.get("MetricDataQueries", [])
        try:
            by_id = parse_queries(requests)
        except ValueError as error:
            raise ValidationError(str(error)) from None
        first, last = (convert_to_naive(parameters[f"{side}Time"]) for side in ("Start", "End"))
        results = []
        for request in requests:
            if not request.get("ReturnData", True):
                continue
            query, messages = by_id[request["Id"]], []
            if isinstance(query, MetricQuery) and query.unit is None:
                units = sorted(self.cloudwatch.metrics.list_units(query.metric))
                if len(units) > 1:  # as on AWS, return the values of only one unit
                    query = replace(query, unit=units[0])
                    text = f"Multiple units returned: '[{', '.join(units)}]'"
                    messages = [{"Code": "MultipleUnits", "Value": text}]
            points = [
                (start, value)
                for start, end in split_into_periods(first, last, query.period_seconds)
                if (value := query.compute_value(self.cloudwatch.metrics, start, end)) is not None
            ]
            if parameters.get("ScanBy", "TimestampDescending") == "TimestampDescending":
                points.reverse()
            label = _build_label(query, by_id.values()) or request["Id"]
            result = {"Id": request["Id"], "Label": request.get("Label") or label}
            result |= {"StatusCode": "Complete", "Messages": messages or None}
            result["Timestamps"] = [start for start, _ in points]
            result["Values"] = [value for _, value in points]
            results.append(result)
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
            for metric in self.cloudwatch.metrics.list_metrics()
            if parameters.get("Namespace") in (None, metric.namespace)
            and parameters.get("MetricName") in (None, metric.name)
            and all(
                any(name == n and value in (None, v) for n, v in metric.dimensions)
                for name, value in filters
            )
        ]
        return ActionResult({"Metrics": shown})

    def serialized(self, action_result: ActionResult) -> tuple[int, dict[str, str], Any]:
        """Return moto's response in AWS's wording, as recorded for each protocol."""
        status, headers, body = cast(tuple[int, Any, Any], super().serialized(action_result))
        listed, error = self._get_action() == "DescribeAlarms", action_result.result
        if "json" not in self.headers.get("Content-Type", ""):
            if isinstance(error, Exception):
                body = re.sub(r"<message>.*?</message>|<[Mm]essage ?/>", "", body, flags=re.DOTALL)
            elif listed:  # which no client's model contains
                body = body.replace("<MetricAlarms", "<LogAlarms/><MetricAlarms", 1)
            return status, headers, body
        headers["Content-Type"] = "application/x-amz-json-1.0"
        if isinstance(error, Exception):
            kind = json.loads(body)["__type"].rpartition("#")[2]
            space = _CHECKS if kind == "ValidationException" else _SHAPES
            said = {"message": getattr(error, "message", "")}
            body = json.dumps({"__type": f"{space}#{kind}", **(said if said["message"] else {})})
            # Only clients in query mode get the query protocol's status.
            status = status if self.headers.get("x-amzn-query-mode") == "true" else 400
        elif listed:
            body = json.dumps({**json.loads(body), "LogAlarms": []})
        return status, headers, body

    def put_metric_alarm(self) -> ActionResult:
        return self._put_alarm("MetricAlarm")

    def put_composite_alarm(self) -> ActionResult:
        return self._put_alarm("CompositeAlarm")

    def _put_alarm(self, kind: Kind) -> ActionResult:
        request = dict(self._get_params())
        if problems := list_violations(request, "cloudwatch", f"Put{kind}"):
            raise ValidationError(format_violations(problems))
        tags = {tag["Key"]: tag["Value"] for tag in request.pop("Tags", None) or []}
        try:
            self.cloudwatch.alarms.put_alarm(kind, request, tags)
        except ValueError as error:
            raise ValidationError(str(error)) from None
        return EmptyResult()

    def describe_alarms(self) -> ActionResult:
        # As on AWS: composite alarms are only listed for those who ask for them.
        kinds = self._get_param("AlarmTypes") or ["MetricAlarm"]
        names, prefix = self._get_param("AlarmNames"), self._get_param("ActionPrefix")
        alarms = [
            alarm
            for alarm in self.cloudwatch.alarms.list_alarms()
            if (not names or alarm.name in names)
            and alarm.name.startswith(self._get_param("AlarmNamePrefix") or "")
            and self._get_param("StateValue") in (None, alarm.state)
            and (not prefix or any(action.startswith(prefix) for action in alarm.actions))
        ]
        shown = {
            f"{kind}s": [each.describe() for each in alarms if each.kind == kind in kinds]
            for kind in ("MetricAlarm", "CompositeAlarm")
        }
        return ActionResult(shown)

    def describe_alarms_for_metric(self) -> ActionResult:
        metric = Metric.from_request(self._get_params())
        alarms = [
            alarm.describe()
            for alarm in self.cloudwatch.alarms.list_alarms()
            if "MetricName" in alarm.request and Metric.from_request(alarm.request) == metric
        ]
        return ActionResult({"MetricAlarms": alarms})

    def describe_alarm_history(self) -> ActionResult:
        parameters = self._get_params()
        kinds = parameters.get("AlarmTypes") or ["MetricAlarm"]
        start, end = (convert_to_naive(parameters.get(f"{side}Date")) for side in ("Start", "End"))
        items = [
            item
            for alarm in self.cloudwatch.alarms.list_alarms()
            if parameters.get("AlarmName") in (None, alarm.name)
            and (alarm.kind in kinds or parameters.get("AlarmName") == alarm.name)
            for item in alarm.history
            if parameters.get("HistoryItemType") in (None, item["HistoryItemType"])
            and (start is None or item["Timestamp"] >= start)
            and (end is None or item["Timestamp"] <= end)
        ]
        # Items with the same timestamp stay in their order.
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
        alarm = self.cloudwatch.alarms.find_alarm(self._get_param("AlarmName"))
        if alarm is None:
            raise AwsError("ResourceNotFound", "")  # AWS gives no message either
        reason, data = self._get_param("StateReason"), self._get_param("StateReasonData") or ""
        self.cloudwatch.alarms.set_state(alarm.name, state, reason, data)
        return EmptyResult()

    def delete_alarms(self) -> ActionResult:
        self.cloudwatch.alarms.delete(self._get_param("AlarmNames", []))
        return EmptyResult()

    def enable_alarm_actions(self) -> ActionResult:
        return self._set_actions_enabled(True)

    def disable_alarm_actions(self) -> ActionResult:
        return self._set_actions_enabled(False)

    def _set_actions_enabled(self, enabled: bool) -> ActionResult:
        for name in self._get_param("AlarmNames", []):
            self._find_alarm(name).request["ActionsEnabled"] = enabled
        return EmptyResult()

    def _find_alarm(self, name: str) -> Alarm:
        if (alarm := self.cloudwatch.alarms.find_alarm(name)) is None:
            raise AwsError("ResourceNotFound", f"The alarm {name} does not exist.")
        return alarm

    @property
    def _tags(self) -> dict[str, str]:
        return self._find_alarm(self._get_param("ResourceARN")).tags

    def list_tags_for_resource(self) -> ActionResult:
        # AWS returns no tags for an alarm that doesn't exist.
        alarm = self.cloudwatch.alarms.find_alarm(self._get_param("ResourceARN"))
        tags = alarm.tags.items() if alarm else ()
        return ActionResult({"Tags": [{"Key": key, "Value": value} for key, value in tags]})

    def tag_resource(self) -> ActionResult:
        self._tags.update({tag["Key"]: tag["Value"] for tag in self._get_param("Tags", [])})
        return EmptyResult()

    def untag_resource(self) -> ActionResult:
        for key in self._get_param("TagKeys", []):
            self._tags.pop(key, None)
        return EmptyResult()
