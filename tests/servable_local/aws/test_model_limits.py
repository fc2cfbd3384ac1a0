"""Every operation of hosting, invocation, and scaling rejects what botocore's model of it excludes."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import ClientError

from servable_local.aws.local_aws import ACCOUNT, REGION, LocalAws
from servable_local.aws.loopback import service_model
from servable_local.aws.moto_patches.operations import without_effect
from servable_local.aws.resources.shapes import unmet
from servable_local.aws.sagemaker.endpoint_api import SageMakerApi
from servable_local.aws.sagemaker.runtime_api import broken_limits
from servable_local.aws.scaling.api import ScalingApi

APIS = {"sagemaker": SageMakerApi, "application-autoscaling": ScalingApi}


def implemented() -> Iterator[tuple[str, str]]:
    """(service, operation), of those that the local AWS answers."""
    for service, api in APIS.items():
        for operation in service_model(service).operation_names:
            if hasattr(api, xform_name(operation)) and not without_effect(service, operation, api):
                yield service, operation


def too_much(shape: Any) -> Any:
    """A value that the shape's own limits exclude; None if it states none."""
    limits = shape.metadata
    if shape.type_name == "string":
        if shape.enum:
            return "NoSuchValue"
        if limits.get("pattern", "").lstrip("^").startswith("[a-zA-Z0-9]"):
            return "not a name!"
        return "x" * (limits["max"] + 1) if "max" in limits else None
    if shape.type_name in ("integer", "long", "float", "double") and "max" in limits:
        return limits["max"] + 1
    return None


@pytest.fixture(scope="module")
def clients(embedded: LocalAws) -> dict[str, Any]:
    """Clients that send what botocore would reject before it sends."""
    config = Config(parameter_validation=False, retries={"total_max_attempts": 1})
    return {
        service: boto3.session.Session().client(
            service,
            endpoint_url=embedded.url,
            region_name=REGION,
            aws_access_key_id=ACCOUNT,
            aws_secret_access_key=embedded.secret_access_key,
            config=config,
        )
        for service in APIS
    }


def test_most_operations_of_hosting_and_scaling_are_looked_at() -> None:
    operations = dict.fromkeys(operation for _, operation in implemented())
    assert {"ListEndpoints", "UpdateEndpoint", "PutScalingPolicy", "StopTransformJob"} <= {
        *operations
    }
    assert len(operations) > 50


@pytest.mark.parametrize(("service", "operation"), [*implemented()])
def test_limits_of_an_operation(clients: dict[str, Any], service: str, operation: str) -> None:
    call = getattr(clients[service], xform_name(operation))
    shape = service_model(service).operation_model(operation).input_shape
    excluded: list[dict[str, Any]] = [{}] if shape.required_members else []
    for name, member in shape.members.items():
        if (value := too_much(member)) is not None:
            excluded.append({name: value})
    for given in excluded:
        with pytest.raises(ClientError) as raised:
            call(**given)
        error = raised.value.response["Error"]
        assert error["Code"] == "ValidationException", (given, error)


@pytest.mark.parametrize(
    ("name", "value", "problems"),
    [
        ("RequestTTLSeconds", "59", 1),
        ("RequestTTLSeconds", "60", 0),
        ("RequestTTLSeconds", "21601", 1),
        ("RequestTTLSeconds", "soon", 1),
        ("InvocationTimeoutSeconds", "3601", 1),
        ("InputLocation", "s3://", 1),
        ("InputLocation", "s3://bucket/key", 0),
    ],
)
def test_a_queued_request_has_the_limits_of_its_model(name: str, value: str, problems: int) -> None:
    headers = {f"X-Amzn-SageMaker-{name}": value}
    found = broken_limits(headers, b"", name="ranker", operation="InvokeEndpointAsync")
    assert len(found) == problems


@pytest.mark.parametrize("operation", ["InvokeEndpoint", "InvokeEndpointAsync"])
def test_an_endpoints_name_in_the_path_has_its_pattern(operation: str) -> None:
    (problem,) = broken_limits({}, b"", name="with_underscore", operation=operation)
    assert problem.startswith("Value at 'endpointName' failed to satisfy constraint")


@pytest.mark.parametrize(
    ("service", "operation", "given", "problems"),
    [
        # Java's \p{L}, \p{Z}, and \p{N}; its surrogate pairs; and \p{Print}.
        ("sagemaker", "AddTags", {"Tags": [{"Key": "größe", "Value": "5 µ²"}]}, 0),
        ("sagemaker", "AddTags", {"Tags": [{"Key": "a", "Value": "50 %"}]}, 1),
        ("sagemaker", "AddTags", {"Tags": [{"Key": "a", "Value": "tab\t"}]}, 1),
        ("application-autoscaling", "DeleteScalingPolicy", {"ResourceId": "a\U0001f600"}, 0),
        ("application-autoscaling", "DeleteScalingPolicy", {"ResourceId": "a\x01"}, 1),
        ("application-autoscaling", "PutScalingPolicy", {"PolicyName": "größe"}, 1),
        ("application-autoscaling", "PutScalingPolicy", {"PolicyName": "size"}, 0),
    ],
)
def test_a_pattern_of_java_is_checked(
    service: str, operation: str, given: dict[str, Any], problems: int
) -> None:
    required = {
        "AddTags": {"ResourceArn": "arn:aws:sagemaker:us-east-1:123456789012:model/a"},
    }
    policy = {
        "PolicyName": "a",
        "ServiceNamespace": "sagemaker",
        "ResourceId": "a",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    found = unmet(required.get(operation, policy) | given, service, operation)
    assert len(found) == problems, json.dumps(found)
