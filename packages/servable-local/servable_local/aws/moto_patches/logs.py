"""CloudWatch Logs stores queries, keeps one metric filter per name, and counts with it.

Upstream (moto 5.2.5): PutQueryDefinition and similar operations don't exist; a metric filter that
is put again exists twice, and counts nothing. AWS keeps the queries, replaces the old filter, and
publishes its metric for every line that it matches. A group is described with its class, and
found by a part of its name. Sources:
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutQueryDefinition.html,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/MonitoringLogData.html
"""

import json
import operator
import re
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, cast

from moto.core.exceptions import JsonRESTError
from moto.core.utils import unix_time_millis
from moto.logs import models
from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.responses import LogsResponse

from servable_local.aws.cloudwatch.alarms import CloudWatch
from servable_local.aws.loopback import Loopback, Regions
from servable_local.aws.moto_patches.log_patterns import compile_pattern, select_values
from servable_scaling.alarms.query import Metric

_NO_STREAM = "The specified log stream does not exist."
# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
_RETENTION_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922),
    *(3288, 3653),
)
_KEPT_LINES = 10_000
Queries = dict[str, dict[str, Any]]


class _Filter:
    """A filter that replaces moto's, which only supports words and phrases."""

    def __init__(self, pattern: str) -> None:
        self.matches = compile_pattern(pattern)


setattr(models, "EventMessageFilter", _Filter)  # noqa: B010 (mypy)


def _check_pattern(pattern: str) -> None:
    try:
        compile_pattern(pattern)
    except ValueError as error:
        raise InvalidParameterException(str(error)) from None


class LogsApi(LogsResponse):
    """The API of CloudWatch Logs. `cloudwatches` is set when the server is built."""

    cloudwatches: ClassVar[Regions[CloudWatch]]
    _queries: ClassVar[dict[tuple[str, str], Queries]] = {}

    @property
    def _regional_queries(self) -> Queries:
        return self._queries.setdefault((self.current_account, self.region), {})

    def put_query_definition(self) -> str:
        query_id = {"queryDefinitionId": self._get_param("queryDefinitionId") or str(uuid.uuid4())}
        keys = ("name", "queryString", "logGroupNames", "queryLanguage")
        query = {key: value for key in keys if (value := self._get_param(key)) is not None}
        self._regional_queries[query_id["queryDefinitionId"]] = query_id | query
        return json.dumps(query_id)

    def describe_query_definitions(self) -> str:
        prefix = self._get_param("queryDefinitionNamePrefix") or ""
        queries = [
            query for query in self._regional_queries.values() if query["name"].startswith(prefix)
        ]
        return json.dumps({"queryDefinitions": sorted(queries, key=operator.itemgetter("name"))})

    def delete_query_definition(self) -> str:
        if self._regional_queries.pop(self._get_param("queryDefinitionId"), None) is None:
            raise JsonRESTError("ResourceNotFoundException", "The query definition is not there.")
        return json.dumps({"success": True})

    def create_log_group(self) -> str:
        answer = super().create_log_group()
        group: Any = self.logs_backend.groups[self._get_param("logGroupName")]
        group.servable_class = self._get_param("logGroupClass") or "STANDARD"
        return answer

    def describe_log_groups(self) -> str:
        """Describe groups with class and filter count; a pattern is a part of the name."""
        pattern = self._get_param("logGroupNamePattern")
        answer = json.loads(super().describe_log_groups())
        if pattern:
            groups = self.logs_backend.groups.items()
            named = [group for name, group in sorted(groups) if pattern in name]
            answer = {"logGroups": [group.to_describe_dict() for group in named]}
        self._format_page(answer, "logGroups")
        for shown in answer["logGroups"]:
            name = shown["logGroupName"]
            group = self.logs_backend.groups[name]
            filters = self.logs_backend.describe_metric_filters(log_group_name=name)
            shown["logGroupClass"] = getattr(group, "servable_class", "STANDARD")
            shown["metricFilterCount"] = len(list(filters))
            shown["deletionProtectionEnabled"] = False  # which is asked for by an operation: 501
        return json.dumps(answer)

    def list_log_groups(self) -> str:
        pattern, asked = self._get_param("logGroupNamePattern"), self._get_param("logGroupClass")
        found = []
        for name, group in sorted(self.logs_backend.groups.items()):
            of_class = getattr(group, "servable_class", "STANDARD")
            if re.search(pattern or "", name) and asked in (None, of_class):
                names = {"logGroupName": name, "logGroupArn": group.arn}
                found.append(names | {"logGroupClass": of_class})
        return json.dumps({"logGroups": found[: self._get_param("limit") or 50]})

    def _require_group(self) -> Any:
        """Return the request's group. Raises JsonRESTError if it doesn't exist."""
        group = self.logs_backend.groups.get(self._get_param("logGroupName"))
        if group is None:
            raise ResourceNotFoundException
        return group

    def _get_param(self, param_name: str, if_none: Any = None) -> Any:
        """Return a parameter of the request; a group may be named by its ARN as well."""
        value = super()._get_param(param_name, if_none)
        if value is None and param_name == "logGroupName":
            value = super()._get_param("logGroupIdentifier")
            value = value and value.rpartition(":log-group:")[2]
        return value

    def _check_stream(self) -> None:
        name = self._get_param("logStreamName")
        if name not in self._require_group().streams:
            raise ResourceNotFoundException(_NO_STREAM)

    def delete_log_stream(self) -> str:
        self._check_stream()
        return str(super().delete_log_stream())

    def get_log_events(self) -> str:
        if self._get_param("logGroupName"):
            self._check_stream()
        return str(super().get_log_events())

    def filter_log_events(self) -> str:
        """Filter interleaved streams. AWS no longer returns which were searched (2019)."""
        names = self._get_param("logStreamNames") or []
        prefix = self._get_param("logStreamNamePrefix")
        streams, pattern = self._require_group().streams, self._get_param("filterPattern") or ""
        if names and prefix:
            problem = "logStreamNamePrefix and logStreamNames are mutually exclusive parameters."
            raise InvalidParameterException(problem)
        if set(names) - streams.keys():
            raise ResourceNotFoundException(_NO_STREAM)
        _check_pattern(pattern)
        named = names or [name for name in streams if name.startswith(prefix or "")]
        times = [self._get_param(name) for name in ("startTime", "endTime", "limit", "nextToken")]
        group, backend = self._get_param("logGroupName"), cast(Any, self.logs_backend)
        events, token = [], None
        if named:  # no name is every stream's
            events, token, _ = backend.filter_log_events(group, named, *times, pattern, True)
        answer = {"events": events, "nextToken": token, "searchedLogStreams": []}
        return self._format_page(answer, "events")

    def _format_page(self, answer: Any, shown: str) -> str:
        """Return JSON. Raises for an unknown token, for which moto returns nothing."""
        if self._get_param("nextToken") and not answer[shown]:
            raise InvalidParameterException("The specified nextToken is invalid.")
        return json.dumps(answer)

    def describe_log_streams(self) -> str:
        return self._format_page(json.loads(super().describe_log_streams()), "logStreams")

    def put_retention_policy(self) -> str:
        days = self._get_param("retentionInDays")
        if days not in _RETENTION_DAYS:
            must = f"Member must satisfy enum value set: [{', '.join(map(str, _RETENTION_DAYS))}]"
            raise InvalidParameterException(
                constraint=must, parameter="retentionInDays", value=days
            )
        return str(super().put_retention_policy())

    def associate_kms_key(self) -> str:
        group = self._require_group()
        group.kms_key_id = self._get_param("kmsKeyId")
        return ""

    # The request names no key.
    disassociate_kms_key = associate_kms_key

    def put_metric_filter(self) -> str:
        name, group = self._get_param("filterName"), self._require_group().name
        _check_pattern(self._get_param("filterPattern"))
        self.logs_backend.delete_metric_filter(name, group)
        answer = super().put_metric_filter()
        for to in self.logs_backend.filters.metric_filters[-1]["metricTransformations"]:
            if "defaultValue" in to:
                to["defaultValue"] = float(to["defaultValue"])
        applied = bool(self._get_param("applyOnTransformedLogs"))
        self.logs_backend.filters.metric_filters[-1] |= {
            "applyOnTransformedLogs": applied,
            "creationTime": int(unix_time_millis()),
        }
        return answer

    def describe_metric_filters(self) -> str:
        if self._get_param("logGroupName"):
            self._require_group()
        return str(super().describe_metric_filters())

    def delete_metric_filter(self) -> str:
        self._require_group()
        named = {key: self._get_param(key) for key in ("filterName", "logGroupName")}
        filters = self.logs_backend.filters.metric_filters
        if not any(named.items() <= there.items() for there in filters):
            # In the words of the other kinds.
            raise ResourceNotFoundException("The specified metric filter does not exist.")
        return str(super().delete_metric_filter())

    def put_log_events(self) -> str:
        answer = str(super().put_log_events())
        group, lines = self._get_param("logGroupName"), self._get_param("logEvents")
        cloudwatch = self.cloudwatches.find_service(self.current_account, self.region)
        for line in lines:
            at = datetime.fromtimestamp(line["timestamp"] / 1000, UTC).replace(tzinfo=None)
            _count_lines(self.logs_backend, cloudwatch, group, [line["message"]], at)
        return answer


def write_output(
    aws: Loopback,
    cloudwatch: CloudWatch,
    group: str,
    stream: str,
    lines: Sequence[str],
    create: bool,
) -> None:
    """Write a container's output at the real time; filters count it at the clock's time.

    `create`: create the group if it doesn't exist; otherwise the lines are dropped. A stream
    keeps its last lines: an access log grows with every request.
    """
    backend: Any = models.logs_backends[aws.account][aws.region]
    if group not in backend.groups:
        if not create:
            return
        backend.create_log_group(group, {})
    backend.ensure_log_stream(group, stream)
    now = int(unix_time_millis())
    kept = backend.groups[group].streams[stream]
    kept.put_log_events([{"timestamp": now, "message": line} for line in lines])
    kept.events = kept.events[-_KEPT_LINES:]
    # What is found at the end of a minute belongs to it.
    _count_lines(backend, cloudwatch, group, lines, cloudwatch.clock.now() - timedelta(seconds=1))


def _count_lines(
    backend: Any, cloudwatch: CloudWatch, group: str, lines: Sequence[str], at: datetime
) -> None:
    """Count lines in each filter's metric: its value for a match, else its default, if any."""
    for metric_filter in backend.describe_metric_filters(log_group_name=group):
        matches = compile_pattern(metric_filter["filterPattern"])
        for to in metric_filter["metricTransformations"]:
            metric = Metric.from_dimensions(to["metricNamespace"], to["metricName"], {})
            for line in lines:
                value = to.get("metricValue" if matches(line) else "defaultValue")
                if (number := _read_metric_value(value, line)) is not None:
                    cloudwatch.metrics.add(metric, number, unit=to.get("unit", "None"), at=at)


def _read_metric_value(value: Any, line: str) -> float | None:
    """Return a metric's value: a number, or the number at a path in a line of JSON."""
    if str(value).startswith("$."):
        found = select_values(value, json.loads(line))
        value = found[0] if found and isinstance(found[0], int | float) else None
    return None if value is None else float(value)
