"""CloudWatch Logs keeps saved queries, and one metric filter of a name.

Upstream (moto 5.2.5): PutQueryDefinition and its like are not there; a metric filter that
is put again is there twice. AWS keeps the queries, and puts the filter in the old one's
place.
Source: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutQueryDefinition.html
"""

import json
import uuid
from typing import Any, ClassVar

from moto.core.exceptions import JsonRESTError
from moto.logs.responses import LogsResponse

Queries = dict[str, dict[str, Any]]


class LogsApi(LogsResponse):
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
        self.logs_backend.delete_metric_filter(name, group)
        return super().put_metric_filter()
