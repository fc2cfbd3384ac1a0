"""CloudWatch's operations on alarms."""

import json
import re
from typing import Any, cast

from moto.core.responses import ActionResult, EmptyResult

from servable_local.aws.cloudwatch.alarm import ACTIONS, Alarm, Kind
from servable_local.aws.cloudwatch.metrics_api import MetricsApi, naive
from servable_local.aws.errors import ResourceNotFoundError, ValidationError
from servable_local.aws.resources.shapes import refusal, unmet
from servable_scaling.alarms.query import Metric

# Where the names of errors come from, which JSON and CBOR say.
_CHECKS, _SHAPES = "com.amazon.coral.validate", "com.amazonaws.cloudwatch.v2010_08_01"


class CloudWatchApi(MetricsApi):
    """Metrics and alarms are ours; dashboards and insight rules remain moto's."""

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
