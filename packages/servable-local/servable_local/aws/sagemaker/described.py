"""Descriptions of endpoints, their events, and the filters, order, and pages of list operations.

Source: API_ListEndpoints.html, API_ListEndpointConfigs.html, API_ListModels.html,
API_ListInferenceComponents.html, and API_ListTransformJobs.html of SageMaker's API reference.
"""

import base64
import hashlib
import json
import operator
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.endpoint import HostedEndpoint
from servable_local.aws.sagemaker.fleet import HostedVariant

_PAGE = 10
Summary = Mapping[str, Any]
_Position = tuple[str, str]


def list_page(
    request: Mapping[str, Any], kind: str, summaries: Iterable[Summary], member: str
) -> dict[str, Any]:
    """Return a list operation's response: the requested page of `summaries`, and the next token.

    `kind` is the resource's name in the API, as in `kind`Name and `kind`Status; `member` is the
    response's list. A token contains the position of the last entry, not its number, so that a
    caller may delete what a page lists before it requests the next page. Raises `SageMakerError`
    for an invalid token.
    """
    sort_by = request.get("SortBy", "CreationTime")
    sorted_by = f"{kind}{sort_by}" if sort_by in ("Name", "Status") else sort_by
    descending = request.get("SortOrder", "Descending") == "Descending"

    def find_position(summary: Summary) -> _Position:
        value = summary[sorted_by]
        text = value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value
        return text, summary[f"{kind}Name"]

    matching = [each for each in summaries if _is_listed(each, kind, request)]
    matching.sort(key=find_position, reverse=descending)
    if token := request.get("NextToken"):
        last = _decode_token(token)
        is_next = operator.lt if descending else operator.gt
        matching = [each for each in matching if is_next(find_position(each), last)]
    page = matching[: request.get("MaxResults", _PAGE)]
    if len(page) == len(matching):
        return {member: page}
    token = base64.b64encode(json.dumps(find_position(page[-1])).encode())
    return {member: page, "NextToken": token.decode()}


def _is_listed(summary: Summary, kind: str, request: Mapping[str, Any]) -> bool:
    for name in ("CreationTime", "LastModifiedTime"):
        after, before = (_convert_to_utc(request.get(name + side)) for side in ("After", "Before"))
        if (after and summary[name] <= after) or (before and summary[name] >= before):
            return False
    equal = {f"{name}Equals": name for name in ("EndpointName", "VariantName")}
    equal["StatusEquals"] = f"{kind}Status"
    if any(key in request and request[key] != summary[name] for key, name in equal.items()):
        return False
    return str(request.get("NameContains", "")).lower() in summary[f"{kind}Name"].lower()


def _convert_to_utc(given: datetime | float | None) -> datetime | None:
    """Convert a time to the clock's format: UTC, without a time zone."""
    if given is None:
        return None
    moment = given if isinstance(given, datetime) else datetime.fromtimestamp(given, UTC)
    return moment.astimezone(UTC).replace(tzinfo=None)


def _decode_token(token: str) -> _Position:
    try:
        value, name = json.loads(base64.b64decode(token, validate=True))
        return str(value), str(name)
    except ValueError:
        raise SageMakerError("NextToken is invalid; pass the token of the previous page.") from None


def describe_hosted_endpoint(endpoint: HostedEndpoint) -> dict[str, Any]:
    """Return the response of DescribeEndpoint."""
    fleet = endpoint.fleet
    shown: dict[str, Any] = {
        "EndpointName": endpoint.name,
        "EndpointArn": endpoint.arn,
        "EndpointConfigName": endpoint.config["EndpointConfigName"],
        "EndpointStatus": endpoint.status,
        "FailureReason": endpoint.failure,
        "CreationTime": endpoint.created,
        "LastModifiedTime": endpoint.modified,
        "LastDeploymentConfig": endpoint.deployment_config,
        "ProductionVariants": _describe_variants(endpoint, fleet.variants if fleet else {}),
        "AsyncInferenceConfig": endpoint.config.get("AsyncInferenceConfig"),
        "ShadowProductionVariants": _describe_variants(endpoint, fleet.shadows if fleet else {})
        or None,
        "MetricsConfig": endpoint.config.get("MetricsConfig"),
    }
    if pending := _describe_pending(endpoint):
        shown["PendingDeploymentSummary"] = pending
    if capture := endpoint.capture:
        enabled = capture.get("EnableCapture", True)
        shown["DataCaptureConfig"] = {
            "EnableCapture": enabled,
            # Here only requests to real-time endpoints are captured.
            "CaptureStatus": "Started" if enabled and endpoint.kind == "real_time" else "Stopped",
            "CurrentSamplingPercentage": capture["InitialSamplingPercentage"],
            "DestinationS3Uri": capture["DestinationS3Uri"],
            "KmsKeyId": capture.get("KmsKeyId", ""),
        }
    return {name: value for name, value in shown.items() if value is not None}


def _describe_pending(endpoint: HostedEndpoint) -> dict[str, Any] | None:
    """Return PendingDeploymentSummary during a creation or an update, otherwise None."""
    if endpoint.pending is None:
        return None
    config, started = endpoint.pending
    status: dict[str, Any]
    if rollout := endpoint.rollout:
        status = {"Status": "Baking", "StatusMessage": rollout.stage.message}
        status["StartTime"] = rollout.stage_started
        variants = [_describe_capacity(variant) for variant in rollout.fleet.variants.values()]
    else:
        status = {"Status": "Creating", "StartTime": started}
        variants = [{"VariantName": each["VariantName"]} for each in config["ProductionVariants"]]
    return {
        "EndpointConfigName": config["EndpointConfigName"],
        "StartTime": started,
        "ProductionVariants": [each | {"VariantStatus": [status]} for each in variants],
    }


def build_event_detail(endpoint: HostedEndpoint, tags: Mapping[str, str]) -> dict[str, Any]:
    """Return the `detail` of an endpoint's event: times in milliseconds, the status in capitals.

    Source:
    https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html
    """
    detail = convert_times(describe_hosted_endpoint(endpoint))
    detail["EndpointStatus"] = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", endpoint.status).upper()
    detail["Tags"] = dict(tags)
    for name in ("LastDeploymentConfig", "DataCaptureConfig", "MetricsConfig"):
        detail.pop(name, None)
    return dict(detail)


def resolve_image(image: str) -> dict[str, str]:
    """Return the image as specified and with its digest, which AWS reads from the registry.

    No registry is read here: the digest is the SHA-256 of the image's name, the same for each
    name.
    """
    repository, _, tag = image.rpartition(":")
    if "@sha256" in repository or not image:
        return {"SpecifiedImage": image, "ResolvedImage": image}
    if "/" in tag or not repository:  # the name has no tag
        repository = image
    digest = hashlib.sha256(image.encode()).hexdigest()
    return {"SpecifiedImage": image, "ResolvedImage": f"{repository}@sha256:{digest}"}


def _describe_variants(
    endpoint: HostedEndpoint, variants: Mapping[str, HostedVariant]
) -> list[dict[str, Any]]:
    shown = []
    for variant in variants.values():
        image = resolve_image(variant.image) | {"ResolutionTime": endpoint.modified}
        shown.append(_describe_capacity(variant) | {"DeployedImages": [image]})
    return shown


def _describe_capacity(variant: HostedVariant) -> dict[str, Any]:
    weights = dict.fromkeys(("CurrentWeight", "DesiredWeight"), variant.weight)
    named: dict[str, Any] = {"VariantName": variant.name, **weights}
    if variant.serverless is not None:
        names = ("CurrentServerlessConfig", "DesiredServerlessConfig")
        return named | dict.fromkeys(names, variant.serverless)
    serving, desired = variant.instances.serving_count, variant.instances.desired
    shown = named | {"CurrentInstanceCount": serving, "DesiredInstanceCount": desired}
    if variant.instances.is_changing:
        # Source: automating-sagemaker-with-eventbridge.html of SageMaker's guide (2026-11-22).
        way = "out" if desired >= serving else "in"
        message = f"Scaling {way} desired instance count to {desired}."
        shown["VariantStatus"] = [{"Status": "Updating", "StatusMessage": message}]
    if pools := variant.pools:
        shown["InstancePools"] = [
            {"InstanceType": kind, "CurrentInstanceCount": count} for kind, count in pools.items()
        ]
    return shown


def convert_times(value: Any) -> Any:
    """Convert the times in a response to milliseconds; one without a zone is in UTC."""
    if isinstance(value, Mapping):
        return {name: convert_times(item) for name, item in value.items()}
    if isinstance(value, list):
        return [convert_times(item) for item in value]
    if isinstance(value, datetime):
        return round(value.replace(tzinfo=value.tzinfo or UTC).timestamp() * 1000)
    return value
