"""Filters, order, and pages of SageMaker's list operations.

Source: API_ListEndpoints.html, API_ListEndpointConfigs.html, API_ListModels.html,
API_ListInferenceComponents.html, and API_ListTransformJobs.html of SageMaker's API reference.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from servable_local.aws.errors import SageMakerError

_PAGE = 10
Summary = Mapping[str, Any]
_Position = tuple[str, str]


def list_page(
    request: Mapping[str, Any], kind: str, summaries: Iterable[Summary], member: str
) -> dict[str, Any]:
    """Return a list operation's response: the requested page of `summaries`, and the next token.

    `kind` is the resource's name in the API, as in `kind`Name and `kind`Status; `member` is the
    response's list. A token holds the position of the last entry, not its number, so that a caller
    may delete what a page lists before it requests the next page. Raises `SageMakerError` for an
    invalid token.
    """
    sort_by = request.get("SortBy", "CreationTime")
    sorted_by = f"{kind}{sort_by}" if sort_by in ("Name", "Status") else sort_by
    descending = request.get("SortOrder", "Descending") == "Descending"

    def position(summary: Summary) -> _Position:
        value = summary[sorted_by]
        text = value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value
        return text, summary[f"{kind}Name"]

    matching = [each for each in summaries if _is_listed(each, kind, request)]
    matching.sort(key=position, reverse=descending)
    if token := request.get("NextToken"):
        last = _decode(token)
        matching = [
            each
            for each in matching
            if (position(each) < last if descending else position(each) > last)
        ]
    page = matching[: request.get("MaxResults", _PAGE)]
    more = {"NextToken": _encode(position(page[-1]))} if len(page) < len(matching) else {}
    return {member: page, **more}


def _is_listed(summary: Summary, kind: str, request: Mapping[str, Any]) -> bool:
    for name in ("CreationTime", "LastModifiedTime"):
        after, before = (_utc(request.get(name + side)) for side in ("After", "Before"))
        if (after and summary[name] <= after) or (before and summary[name] >= before):
            return False
    equal = {
        "StatusEquals": f"{kind}Status",
        "EndpointNameEquals": "EndpointName",
        "VariantNameEquals": "VariantName",
    }
    if any(key in request and request[key] != summary[name] for key, name in equal.items()):
        return False
    return str(request.get("NameContains", "")).lower() in summary[f"{kind}Name"].lower()


def _utc(given: datetime | float | None) -> datetime | None:
    """Return a time as the clock has it: in UTC, without a zone."""
    if given is None:
        return None
    moment = given if isinstance(given, datetime) else datetime.fromtimestamp(given, UTC)
    return moment.astimezone(UTC).replace(tzinfo=None)


def _encode(position: _Position) -> str:
    return base64.b64encode(json.dumps(position).encode()).decode()


def _decode(token: str) -> _Position:
    try:
        value, name = json.loads(base64.b64decode(token, validate=True))
        return str(value), str(name)
    except ValueError:
        raise SageMakerError("NextToken is invalid; pass the one of the previous page.") from None
