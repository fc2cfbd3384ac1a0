"""Functions of Lambda, kept and described; nothing runs them (docs/local.md)."""

import io
import zipfile
from contextlib import suppress
from typing import Any

from servable_local.aws.resources.resource_type import Logical, Physical, ResourceType, tags_as_map
from servable_local.aws.resources.shapes import Properties


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
