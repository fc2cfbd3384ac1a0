"""State machines, schedules and their groups, and functions of Lambda, which nothing runs (docs/local.md)."""

import io
import json
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from servable_local.aws.resources.resource_type import (
    Logical,
    Physical,
    Properties,
    ResourceError,
    ResourceType,
    lower_names,
    retag,
    tags_as_map,
)

_OWN_NAMES = {
    "StateMachineType": "type",
    "DefinitionString": "definition",
}


class LambdaFunction(ResourceType):
    type = "AWS::Lambda::Function"
    create_only = frozenset({"FunctionName", "PackageType", "TenancyConfig"})
    name_property = "FunctionName"
    longest_name = 64

    def create(self, properties: Properties, logical: Logical) -> Physical:
        name = self.name(properties, logical)
        arguments = {**_settings(properties, name), "Code": _code(properties)}
        if tags := properties.get("Tags"):
            arguments["Tags"] = tags_as_map(tags)
        answer = logical.call("lambda", "CreateFunction", arguments)
        return Physical(name, {"Arn": answer["FunctionArn"]})

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        answer = logical.call("lambda", "UpdateFunctionConfiguration", _settings(new, physical))
        if old.get("Code") != new.get("Code"):
            code = {**_code(new), "FunctionName": physical}
            logical.call("lambda", "UpdateFunctionCode", code)
        return Physical(physical, {"Arn": answer["FunctionArn"]})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        functions = logical.client("lambda")
        with suppress(functions.exceptions.ResourceNotFoundException):  # gone is what was asked for
            functions.delete_function(FunctionName=physical)


def _settings(properties: Properties, name: str) -> dict[str, Any]:
    settings = {key: value for key, value in properties.items() if key not in ("Code", "Tags")}
    return settings | {"FunctionName": name}


def _code(properties: Properties) -> dict[str, Any]:
    """The template holds a source as text, which becomes index.py; the API takes an archive."""
    code = dict(properties["Code"])
    if "ZipFile" in code:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("index.py", code["ZipFile"])
        code["ZipFile"] = packed.getvalue()
    return code


class LambdaPermission(ResourceType):
    """Permission to call a function, kept with it. CloudFormation replaces it whatever changes."""

    type = "AWS::Lambda::Permission"
    create_only = frozenset(
        {
            "Action",
            "EventSourceToken",
            "FunctionName",
            "FunctionUrlAuthType",
            "InvokedViaFunctionUrl",
            "Principal",
            "PrincipalOrgID",
            "SourceAccount",
            "SourceArn",
        }
    )
    longest_name = 100

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        logical.call("lambda", "AddPermission", {**new, "StatementId": physical})
        return Physical(physical, {"Id": physical})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        functions = logical.client("lambda")
        # Else its function went first and took it along.
        with suppress(functions.exceptions.ResourceNotFoundException):
            functions.remove_permission(
                FunctionName=properties["FunctionName"], StatementId=physical
            )


class StateMachine(ResourceType):
    """A state machine whose definition is in the template."""

    type = "AWS::StepFunctions::StateMachine"
    deletion = ("stepfunctions", "DeleteStateMachine", "stateMachineArn")
    create_only = frozenset({"StateMachineName", "StateMachineType"})
    name_property = "StateMachineName"
    longest_name = 80
    emulated = frozenset(
        {
            *_OWN_NAMES,
            "StateMachineName",
            "Definition",
            "RoleArn",
            "Tags",
            "LoggingConfiguration",
            "TracingConfiguration",
        }
    )

    def create(self, properties: Properties, logical: Logical) -> Physical:
        name, tags = self.name(properties, logical), _lower_tags(properties.get("Tags", []))
        given = {**_arguments(properties), "name": name, "tags": tags}
        arn = logical.call("stepfunctions", "CreateStateMachine", given)["stateMachineArn"]
        return Physical(arn, {"Arn": arn, "Name": name})

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        given = {key: item for key, item in _arguments(new).items() if key != "type"}
        logical.call("stepfunctions", "UpdateStateMachine", {**given, "stateMachineArn": physical})
        resource, arguments = {"resourceArn": physical}, ("tags", "tagKeys")
        retag(logical, "stepfunctions", resource, old, new, arguments=arguments, shaped=_lower_tags)
        return Physical(physical, {"Arn": physical, "Name": physical.rsplit(":", 1)[-1]})


def _arguments(properties: Properties) -> dict[str, object]:
    if "Definition" in properties:
        properties = {**properties, "DefinitionString": json.dumps(properties["Definition"])}
    if "DefinitionString" not in properties:
        raise ResourceError("AWS::StepFunctions::StateMachine: give Definition or DefinitionString")
    given = {_OWN_NAMES[key]: item for key, item in properties.items() if key in _OWN_NAMES}
    logged = properties.get("LoggingConfiguration")
    if logged:
        given["loggingConfiguration"] = _lower(logged)
    return {**given, "roleArn": properties["RoleArn"]}


def _lower_tags(tags: Sequence[Properties]) -> list[dict[str, str]]:
    return [{"key": tag["Key"], "value": tag["Value"]} for tag in tags]


def _lower(value: object) -> object:
    """The API's names of what the template writes in capitals."""
    if isinstance(value, dict):
        return {key: _lower(item) for key, item in lower_names(value).items()}
    return [_lower(item) for item in value] if isinstance(value, list) else value


class ScheduleOfScheduler(ResourceType):
    """A schedule of EventBridge Scheduler, in the default group or another."""

    type = "AWS::Scheduler::Schedule"
    create_only = frozenset({"Name"})
    name_property = "Name"
    longest_name = 64

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        operation = "UpdateSchedule" if old else "CreateSchedule"
        arn = logical.call("scheduler", operation, {**new, "Name": physical})["ScheduleArn"]
        return Physical(physical, {"Arn": arn})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        group = properties.get("GroupName", "default")
        logical.client("scheduler").delete_schedule(Name=physical, GroupName=group)


class ScheduleGroup(ResourceType):
    """A group of schedules, whose metrics are published together."""

    type = "AWS::Scheduler::ScheduleGroup"
    create_only = frozenset({"Name"})
    name_property = "Name"
    longest_name = 64
    deletion = ("scheduler", "DeleteScheduleGroup", "Name")

    def create(self, properties: Properties, logical: Logical) -> Physical:
        name = self.name(properties, logical)
        given = {"Name": name, "Tags": properties.get("Tags", [])}
        arn = logical.call("scheduler", "CreateScheduleGroup", given)["ScheduleGroupArn"]
        return Physical(name, {"Arn": arn})

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        arn = logical.client("scheduler").get_schedule_group(Name=physical)["Arn"]
        retag(logical, "scheduler", {"ResourceArn": arn}, old, new)
        return Physical(physical, {"Arn": arn})
