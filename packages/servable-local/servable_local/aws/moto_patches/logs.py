"""CloudWatch Logs stores queries, keeps one metric filter per name, and counts with it.

Upstream (moto 5.2.5): PutQueryDefinition and similar operations don't exist; a metric filter that
is put again exists twice, and counts nothing. AWS keeps the queries, replaces the old filter, and
publishes its metric for every line that it matches. FilterLogEvents ignores a prefix of streams,
and a group's key can't be changed. Sources:
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutQueryDefinition.html,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/MonitoringLogData.html
"""

import json
import operator
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, cast

from moto.core.utils import unix_time_millis
from moto.logs import models
from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.responses import LogsResponse

from servable_local.aws.cloudwatch.alarms import CloudWatch
from servable_local.aws.loopback import Loopback, Regions
from servable_local.aws.moto_patches.log_patterns import compile_pattern, select_values
from servable_scaling.alarms.query import Metric

_KEPT_LINES = 10_000
Queries = dict[str, dict[str, Any]]


class _Filter:
    """A filter that replaces moto's, which only supports words and phrases."""

    def __init__(self, pattern: str | None) -> None:
        self.matches = compile_pattern(pattern or "")


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
            raise ResourceNotFoundException("The specified query definition does not exist.")
        return json.dumps({"success": True})

    def _require_group(self) -> Any:
        """Return the request's group. Raises ResourceNotFoundException if it doesn't exist."""
        group = self.logs_backend.groups.get(self._get_param("logGroupName"))
        if group is None:
            raise ResourceNotFoundException
        return group

    def filter_log_events(self) -> str:
        """Filter interleaved streams. AWS no longer returns which were searched (2019)."""
        pattern = self._get_param("filterPattern") or ""
        prefix = self._get_param("logStreamNamePrefix") or ""
        _check_pattern(pattern)
        found = [name for name in self._require_group().streams if name.startswith(prefix)]
        names = self._get_param("logStreamNames") or found
        times = [self._get_param(name) for name in ("startTime", "endTime", "limit", "nextToken")]
        group, backend = self._get_param("logGroupName"), cast(Any, self.logs_backend)
        events, token = [], None
        if names:  # moto searches every stream for an empty list
            events, token, _ = backend.filter_log_events(group, names, *times, pattern, True)
        return json.dumps({"events": events, "nextToken": token, "searchedLogStreams": []})

    def associate_kms_key(self) -> str:
        group = self._require_group()
        group.kms_key_id = self._get_param("kmsKeyId")
        return ""

    disassociate_kms_key = associate_kms_key  # its request has no kmsKeyId

    def put_metric_filter(self) -> str:
        name, group = self._get_param("filterName"), self._require_group().name
        _check_pattern(self._get_param("filterPattern"))
        self.logs_backend.delete_metric_filter(name, group)
        answer = super().put_metric_filter()
        for to in self.logs_backend.filters.metric_filters[-1]["metricTransformations"]:
            if "defaultValue" in to:
                to["defaultValue"] = float(to["defaultValue"])
        return answer

    def delete_metric_filter(self) -> str:
        named = {key: self._get_param(key) for key in ("filterName", "logGroupName")}
        filters = self.logs_backend.filters.metric_filters
        if not any(named.items() <= there.items() for there in filters):
            raise ResourceNotFoundException("The specified metric filter does not exist.")
        return str(super().delete_metric_filter())

    def put_log_events(self) -> str:
        answer = str(super().put_log_events())
        group, lines = self._get_param("logGroupName"), self._get_param("logEvents")
        cloudwatch = self.cloudwatches.provide_service(self.current_account, self.region)
        for line in lines:
            at = datetime.fromtimestamp(line["timestamp"] / 1000, UTC).replace(tzinfo=None)
            _apply_metric_filters(self.logs_backend, cloudwatch, group, [line["message"]], at)
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
    at = cloudwatch.clock.now() - timedelta(seconds=1)  # at the end of a minute, of that minute
    _apply_metric_filters(backend, cloudwatch, group, lines, at)


def _apply_metric_filters(
    backend: Any, cloudwatch: CloudWatch, group: str, lines: Sequence[str], at: datetime
) -> None:
    """Count lines in each filter's metric: its value for a match, else its default, if any."""
    for metric_filter in backend.describe_metric_filters(log_group_name=group):
        matches = compile_pattern(metric_filter["filterPattern"])
        for to in metric_filter["metricTransformations"]:
            for line in lines:
                matched = matches(line)
                value = to.get("metricValue" if matched else "defaultValue")
                if str(value).startswith("$."):
                    value = _read_field(value, line)
                elif value is not None:
                    value = float(value)
                if isinstance(value, int | float):
                    fields = to.get("dimensions", {}).items() if matched else ()
                    named = {name: str(_read_field(path, line)) for name, path in fields}
                    metric = Metric.from_dimensions(to["metricNamespace"], to["metricName"], named)
                    cloudwatch.metrics.add(metric, value, unit=to.get("unit", "None"), at=at)


def _read_field(path: str, line: str) -> Any:
    """Return the first value at a path in a line of JSON, or None."""
    return next(iter(select_values(path, json.loads(line))), None)
