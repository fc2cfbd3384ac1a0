"""State machines, schedules and their groups, and unused Lambda functions (docs/local.md)."""

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
    lower_first_letters,
    map_tags,
)

_OWN_NAMES = {"StateMachineType": "type", "DefinitionString": "definition"}
# Properties of a function that other operations than UpdateFunctionConfiguration change.
_NO_CONFIGURATION = ("Architectures", "Code", "ReservedConcurrentExecutions", "Tags")
# The values of properties that are removed.
_FUNCTION_DEFAULTS: Properties = {
    "Description": "",
    "Environment": {"Variables": {}},
    "Layers": [],
    "MemorySize": 128,
    "Timeout": 3,
}


class LambdaFunction(ResourceType):
    type = "AWS::Lambda::Function"
    create_only = frozenset({"FunctionName", "PackageType", "TenancyConfig"})
    name_property = "FunctionName"
    longest_name = 64

    def create(self, properties: Properties, logical: Logical) -> Physical:
        name = self.choose_name(properties, logical)
        given = {k: v for k, v in properties.items() if k != "ReservedConcurrentExecutions"}
        given |= {"FunctionName": name, "Code": _build_code(properties)}
        given["Tags"] = map_tags(properties.get("Tags", []))
        answer = logical.call("lambda", "CreateFunction", given)
        logical.exists(name)
        _reserve_concurrency(name, {}, properties, logical)
        return Physical(name, {"Arn": answer["FunctionArn"]})

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        name = {"FunctionName": physical}
        settings = {k: v for k, v in new.items() if k not in _NO_CONFIGURATION}
        given = {**_FUNCTION_DEFAULTS, **settings, **name}
        arn = str(logical.call("lambda", "UpdateFunctionConfiguration", given)["FunctionArn"])
        if any(old.get(key) != new.get(key) for key in ("Code", "Architectures")):
            kept = {key: new[key] for key in ("Architectures",) if key in new}
            logical.call("lambda", "UpdateFunctionCode", {**_build_code(new), **kept, **name})
        _reserve_concurrency(physical, old, new, logical)
        logical.update_tags("lambda", {"Resource": arn}, old, new, shaped=map_tags)
        return Physical(physical, {"Arn": arn})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        functions = logical.client("lambda")
        with suppress(functions.exceptions.ResourceNotFoundException):  # already deleted
            functions.delete_function(FunctionName=physical)


def _reserve_concurrency(name: str, old: Properties, new: Properties, logical: Logical) -> None:
    function, key = {"FunctionName": name}, "ReservedConcurrentExecutions"
    if key in new:
        logical.call("lambda", "PutFunctionConcurrency", {**function, key: new[key]})
    elif key in old:
        logical.call("lambda", "DeleteFunctionConcurrency", function)


def _build_code(properties: Properties) -> dict[str, Any]:
    """Convert the template's source text, which becomes index.py, to the API's archive."""
    code = dict(properties["Code"])
    if "ZipFile" in code:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("index.py", code["ZipFile"])
        code["ZipFile"] = packed.getvalue()
    return code


class LambdaPermission(ResourceType):
    """Permission to call a function, stored with it. CloudFormation replaces it on any change."""

    type = "AWS::Lambda::Permission"
    create_only = frozenset({
        "Action", "EventSourceToken", "FunctionName", "FunctionUrlAuthType", "Principal",
        "InvokedViaFunctionUrl", "PrincipalOrgID", "SourceAccount", "SourceArn",
    })  # fmt: skip
    longest_name = 100

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        logical.call("lambda", "AddPermission", {**new, "StatementId": physical})
        return Physical(physical, {"Id": physical})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        functions, name = logical.client("lambda"), properties["FunctionName"]
        # Its function may already be deleted, and the permission with it.
        with suppress(functions.exceptions.ResourceNotFoundException):
            functions.remove_permission(FunctionName=name, StatementId=physical)


class StateMachine(ResourceType):
    """A state machine whose definition is in the template."""

    type = "AWS::StepFunctions::StateMachine"
    deletion = ("stepfunctions", "DeleteStateMachine", "stateMachineArn")
    create_only = frozenset({"StateMachineName", "StateMachineType"})
    name_property = "StateMachineName"
    longest_name = 80
    emulated = frozenset({
        *_OWN_NAMES, "StateMachineName", "Definition", "RoleArn", "Tags", "LoggingConfiguration",
        "TracingConfiguration",
    })  # fmt: skip

    def create(self, properties: Properties, logical: Logical) -> Physical:
        name = self.choose_name(properties, logical)
        tags = _convert_tags(properties.get("Tags", []))
        given = {**_build_arguments(properties), "name": name, "tags": tags}
        arn = logical.call("stepfunctions", "CreateStateMachine", given)["stateMachineArn"]
        return Physical(arn, {"Arn": arn, "Name": name})

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        given = {key: item for key, item in _build_arguments(new).items() if key != "type"}
        logical.call("stepfunctions", "UpdateStateMachine", {**given, "stateMachineArn": physical})
        resource, arguments = {"resourceArn": physical}, ("tags", "tagKeys")
        logical.update_tags(
            "stepfunctions", resource, old, new, arguments=arguments, shaped=_convert_tags
        )
        return Physical(physical, {"Arn": physical, "Name": physical.rsplit(":", 1)[-1]})


def _build_arguments(properties: Properties) -> dict[str, object]:
    if "Definition" in properties:
        properties = {**properties, "DefinitionString": json.dumps(properties["Definition"])}
    if "DefinitionString" not in properties:
        raise ResourceError("AWS::StepFunctions::StateMachine: set Definition or DefinitionString")
    given = {_OWN_NAMES[key]: item for key, item in properties.items() if key in _OWN_NAMES}
    if logged := properties.get("LoggingConfiguration"):
        given["loggingConfiguration"] = _lower_all_names(logged)
    return {**given, "roleArn": properties["RoleArn"]}


def _convert_tags(tags: Sequence[Properties]) -> list[dict[str, str]]:
    return [{"key": tag["Key"], "value": tag["Value"]} for tag in tags]


def _lower_all_names(value: object) -> object:
    """Convert the template's capitalized names to the API's, in nested values too."""
    if isinstance(value, dict):
        return {key: _lower_all_names(item) for key, item in lower_first_letters(value).items()}
    return [_lower_all_names(item) for item in value] if isinstance(value, list) else value


class SchedulerSchedule(ResourceType):
    """A schedule of EventBridge Scheduler, in the default group or a different one."""

    type = "AWS::Scheduler::Schedule"
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
    name_property = "Name"
    longest_name = 64
    deletion = ("scheduler", "DeleteScheduleGroup", "Name")

    def create(self, properties: Properties, logical: Logical) -> Physical:
        name = self.choose_name(properties, logical)
        given = {"Name": name, "Tags": properties.get("Tags", [])}
        arn = logical.call("scheduler", "CreateScheduleGroup", given)["ScheduleGroupArn"]
        return Physical(name, {"Arn": arn})

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        arn = logical.client("scheduler").get_schedule_group(Name=physical)["Arn"]
        logical.update_tags("scheduler", {"ResourceArn": arn}, old, new)
        return Physical(physical, {"Arn": arn})
