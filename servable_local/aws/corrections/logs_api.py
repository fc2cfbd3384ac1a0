"""CloudWatch Logs keeps saved queries, one metric filter of a name, and counts by it.

Upstream (moto 5.2.5): PutQueryDefinition and its like are not there; a metric filter that
is put again is there twice, and counts nothing. AWS keeps the queries, puts the filter in
the old one's place, and publishes its metric for every line that it matches.
Sources: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutQueryDefinition.html,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/MonitoringLogData.html
"""

import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from moto.core.exceptions import JsonRESTError
from moto.logs.responses import LogsResponse

from servable_local.aws.cloudwatch.cloudwatches import CloudWatches
from servable_local.aws.cloudwatch.filter_pattern import compiled
from servable_local.aws.cloudwatch.metric_store import Metric

Queries = dict[str, dict[str, Any]]


class LogsApi(LogsResponse):
    """`cloudwatches` is set when the server is built."""

    cloudwatches: ClassVar[CloudWatches]
    _queries: ClassVar[dict[tuple[str, str], Queries]] = {}

    @property
    def _here(self) -> Queries:
        return self._queries.setdefault((self.current_account, self.region), {})

    def put_query_definition(self) -> str:
        known = ("name", "queryString", "logGroupNames", "queryLanguage")
        asked = {key: self._get_param(key) for key in known}
        query_id = self._get_param("queryDefinitionId") or str(uuid.uuid4())
        self._here[query_id] = {
            "queryDefinitionId": query_id,
            **{key: value for key, value in asked.items() if value is not None},
        }
        return json.dumps({"queryDefinitionId": query_id})

    def describe_query_definitions(self) -> str:
        prefix = self._get_param("queryDefinitionNamePrefix") or ""
        found = [one for one in self._here.values() if one["name"].startswith(prefix)]
        return json.dumps({"queryDefinitions": sorted(found, key=lambda one: str(one["name"]))})

    def delete_query_definition(self) -> str:
        if self._here.pop(self._get_param("queryDefinitionId"), None) is None:
            raise JsonRESTError("ResourceNotFoundException", "The query definition is not there.")
        return json.dumps({"success": True})

    def put_metric_filter(self) -> str:
        name, group = self._get_param("filterName"), self._get_param("logGroupName")
        try:
            compiled(self._get_param("filterPattern"))
        except ValueError as error:
            raise JsonRESTError("InvalidParameterException", str(error)) from None
        self.logs_backend.delete_metric_filter(name, group)
        return super().put_metric_filter()

    def put_log_events(self) -> str:
        answer = str(super().put_log_events())
        self._count(self._get_param("logGroupName"), self._get_param("logEvents"))
        return answer

    def _count(self, group: str, lines: Sequence[dict[str, Any]]) -> None:
        """Each line at its own time, in the metric of every filter: its value where it matches,
        else the default value, if there is one."""
        metrics = self.cloudwatches.of(self.current_account, self.region).metrics
        for one in self.logs_backend.describe_metric_filters(log_group_name=group):
            matches = compiled(one["filterPattern"])
            for to in one["metricTransformations"]:
                metric = Metric.of(to["metricNamespace"], to["metricName"], {})
                for line in lines:
                    value = to.get("metricValue" if matches(line["message"]) else "defaultValue")
                    at = datetime.fromtimestamp(line["timestamp"] / 1000, UTC)
                    if value is not None:
                        metrics.add(
                            metric,
                            float(value),
                            unit=to.get("unit", "None"),
                            at=at.replace(tzinfo=None),
                        )
