"""AWS::Lambda::Function: kept and described; nothing runs it (docs/local.md)."""

import io
import zipfile
from typing import Any

from servable_local.aws.resources.resource_type import Made, Properties, Request, ResourceType
from servable_local.aws.resources.shapes import fit

_CODE = "Code"


class LambdaFunction(ResourceType):
    type = "AWS::Lambda::Function"
    create_only = frozenset({"FunctionName", "PackageType", "TenancyConfig"})
    name_property = "FunctionName"

    def create(self, properties: Properties, request: Request) -> Made:
        name = request.name(properties, "FunctionName", longest=64)
        wanted = {**_settings(properties), "FunctionName": name, _CODE: {}}
        if tags := properties.get("Tags"):
            wanted["Tags"] = {one["Key"]: one["Value"] for one in tags}
        asked = fit(wanted, "lambda", "CreateFunction") | {_CODE: _code(properties)}
        made = request.client("lambda").create_function(**asked)
        return Made(name, {"Arn": made["FunctionArn"]})

    def update(self, physical_id: str, old: Properties, new: Properties, request: Request) -> Made:
        functions = request.client("lambda")
        settings = {**_settings(new), "FunctionName": physical_id}
        found = functions.update_function_configuration(
            **fit(settings, "lambda", "UpdateFunctionConfiguration")
        )
        if old.get(_CODE) != new.get(_CODE):
            functions.update_function_code(FunctionName=physical_id, **_code(new))
        return Made(physical_id, {"Arn": found["FunctionArn"]})

    def delete(self, physical_id: str, properties: Properties, request: Request) -> None:
        functions = request.client("lambda")
        try:
            functions.delete_function(FunctionName=physical_id)
        except functions.exceptions.ResourceNotFoundException:
            pass  # gone is what was asked for


def _settings(properties: Properties) -> dict[str, Any]:
    return {key: value for key, value in properties.items() if key not in (_CODE, "Tags")}


def _code(properties: Properties) -> dict[str, Any]:
    """The template holds a source as text, which becomes index.py; the API takes an archive."""
    code = dict(properties[_CODE])
    if "ZipFile" in code:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("index.py", code["ZipFile"])
        code["ZipFile"] = packed.getvalue()
    return code
