"""Resources of a template as the API calls that they stand for, held to botocore's models."""

import re
from collections.abc import Iterator
from typing import Any

import botocore.session
from botocore.validate import ParamValidator

SCALING = "application-autoscaling"
CREATED_BY = {
    **{
        f"AWS::SageMaker::{kind}": ("sagemaker", f"Create{kind}")
        for kind in ("Model", "EndpointConfig", "Endpoint", "InferenceComponent")
    },
    "AWS::ApplicationAutoScaling::ScalableTarget": (SCALING, "RegisterScalableTarget"),
    "AWS::ApplicationAutoScaling::ScalingPolicy": (SCALING, "PutScalingPolicy"),
}
NAMED = {"CreateModel": "ModelName", "CreateEndpointConfig": "EndpointConfigName"}
Call = tuple[str, str, dict[str, Any]]
_session = botocore.session.get_session()


def calls(template: dict[str, Any]) -> Iterator[Call]:
    """(service, operation, arguments) of every SageMaker and autoscaling resource."""
    for resource in template["Resources"].values():
        if resource["Type"] in CREATED_BY:
            service, operation = CREATED_BY[resource["Type"]]
            yield from _calls(service, operation, plain(resource["Properties"]))


def _calls(service: str, operation: str, asked: dict[str, Any]) -> Iterator[Call]:
    if operation == "CreateEndpoint":
        update = {name: value for name, value in asked.items() if name != "Tags"}
        yield service, "UpdateEndpoint", update
        # What an endpoint is asked only when it is updated begins so.
        updates = ("Retain", "ExcludeRetained")
        asked = {name: value for name, value in asked.items() if not name.startswith(updates)}
    if operation in NAMED:
        asked = {NAMED[operation]: "named-by-cloudformation", **asked}
    target = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": "endpoint/name/variant/name",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    if operation == "PutScalingPolicy":
        asked.pop("ScalingTargetId", None)
        asked = {**target, **asked}
    for action in asked.pop("ScheduledActions", []):
        action = dict(action) | {name: asked[name] for name in target}
        yield service, "PutScheduledAction", action
    yield service, operation, asked


def plain(value: Any) -> Any:
    """What CloudFormation fills in, as a name that is as good as any."""
    if isinstance(value, dict):
        if len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref")):
            return _filled(value)
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def _filled(value: dict[str, Any]) -> str:
    ((function, argument),) = value.items()
    if function == "Fn::Join":
        return str(argument[0]).join(str(plain(part)) for part in argument[1])
    if function == "Ref" and str(argument).startswith("AWS::"):
        return {"AWS::AccountId": "111111111111"}.get(argument, "aws")
    if function == "Ref" and str(argument).startswith("Queue"):
        return "arn:aws:sns:eu-west-1:111111111111:made-up"
    attribute = argument[1] if function == "Fn::GetAtt" else ""
    made_up = "arn:aws:iam::111111111111:role/made-up"
    return made_up if str(attribute).endswith("Arn") else "made-up"


def problems(call: Call) -> list[str]:
    """What botocore refuses, and what the service would: an enum, a range, a pattern."""
    service, operation, asked = call
    shape = _session.get_service_model(service).operation_model(operation).input_shape
    report = ParamValidator().validate(asked, shape)
    unknown = report.generate_report() if report.has_errors() else ""
    return [*filter(None, [unknown]), *_beyond(asked, shape, operation)]


def _beyond(value: Any, shape: Any, at: str) -> Iterator[str]:
    if shape.type_name == "structure":
        for name in sorted(set(value) - set(shape.members)):
            yield f"{at}: {name} is unknown"
        for name in set(value) & set(shape.members):
            yield from _beyond(value[name], shape.members[name], f"{at}.{name}")
    elif shape.type_name == "list":
        yield from _size(len(value), shape, at)
        for item in value:
            yield from _beyond(item, shape.member, at)
    elif shape.type_name == "map":
        for key, item in value.items():
            yield from _beyond(item, shape.value, f"{at}.{key}")
    elif shape.type_name == "string":
        yield from _size(len(value), shape, at)
        if getattr(shape, "enum", None) and value not in shape.enum:
            yield f"{at}: {value} is none of {shape.enum}"
        pattern = shape.metadata.get("pattern")
        # Java's classes and surrogates are not Python's.
        if (
            pattern
            and not re.search(r"\\[pu]", pattern)
            and not re.search(f"^(?:{pattern})$", value)
        ):
            yield f"{at}: {value} is not of {pattern}"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _size(value, shape, at)


def _size(value: float, shape: Any, at: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if (least is not None and value < least) or (most is not None and value > most):
        yield f"{at}: {value} is not {least} to {most}"
