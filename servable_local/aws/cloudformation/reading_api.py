"""The operations that only look: stacks, resources, events, templates, exports."""

from typing import Any

from moto.core.responses import ActionResult

from servable_local.aws.cloudformation.api import Api
from servable_local.aws.cloudformation.errors import ValidationError
from servable_local.aws.cloudformation.stack import Resource, Stack
from servable_local.aws.cloudformation.template import parse


class ReadingApi(Api):
    def describe_stacks(self) -> ActionResult:
        name = self._get_param("StackName")
        live = [s for s in self.here.stacks.all() if s.status != "DELETE_COMPLETE"]
        stacks = [self.here.stacks.get(name)] if name else live
        return ActionResult({"Stacks": [stack.describe() for stack in stacks]})

    def list_stacks(self) -> ActionResult:
        wanted = self._get_param("StackStatusFilter", [])
        shown = [s for s in self.here.stacks.all() if not wanted or s.status in wanted]
        return ActionResult({"StackSummaries": [stack.describe() for stack in shown]})

    def describe_stack_events(self) -> ActionResult:
        stack = self.here.stacks.get(self._get_param("StackName"))
        return ActionResult({"StackEvents": stack.events[::-1]})

    def list_stack_resources(self) -> ActionResult:
        stack = self.here.stacks.get(self._get_param("StackName"))
        shown = [
            _resource(stack, r) | {"LastUpdatedTimestamp": r.changed}
            for r in list(stack.resources.values())
        ]
        return ActionResult({"StackResourceSummaries": shown})

    def describe_stack_resources(self) -> ActionResult:
        stack = self.here.stacks.get(self._get_param("StackName"))
        wanted = self._get_param("LogicalResourceId")
        shown = [
            _resource(stack, r) | {"Timestamp": r.changed}
            for r in list(stack.resources.values())
            if wanted in (None, r.logical_id)
        ]
        return ActionResult({"StackResources": shown})

    def describe_stack_resource(self) -> ActionResult:
        stack = self.here.stacks.get(self._get_param("StackName"))
        wanted = self._get_param("LogicalResourceId")
        if wanted not in stack.resources:
            raise ValidationError(f"Resource {wanted} does not exist for stack {stack.name}")
        found = stack.resources[wanted]
        detail = _resource(stack, found) | {"LastUpdatedTimestamp": found.changed}
        return ActionResult({"StackResourceDetail": detail})

    def get_template(self) -> ActionResult:
        stack = self.here.stacks.get(self._get_param("StackName"))
        return ActionResult(
            {"TemplateBody": stack.template_text, "StagesAvailable": ["Original", "Processed"]}
        )

    def get_template_summary(self) -> ActionResult:
        name = self._get_param("StackName")
        text = self.here.stacks.get(name).template_text if name else self._text()
        template = parse(text)
        return ActionResult(
            {
                "Description": template.get("Description"),
                "Metadata": None,
                "ResourceTypes": sorted({r["Type"] for r in template["Resources"].values()}),
                "Parameters": [
                    {
                        "ParameterKey": key,
                        "ParameterType": slot.get("Type", "String"),
                        "DefaultValue": slot.get("Default"),
                        "Description": slot.get("Description"),
                        "NoEcho": bool(slot.get("NoEcho", False)),
                    }
                    for key, slot in (template.get("Parameters") or {}).items()
                ],
            }
        )

    def validate_template(self) -> ActionResult:
        template = parse(self._text())
        return ActionResult({"Description": template.get("Description"), "Parameters": []})

    def list_exports(self) -> ActionResult:
        shown = [
            {"ExportingStackId": s.id, "Name": o["ExportName"], "Value": o["OutputValue"]}
            for s in self.here.stacks.all()
            for o in s.outputs
            if "ExportName" in o
        ]
        return ActionResult({"Exports": shown})


def _resource(stack: Stack, resource: Resource) -> dict[str, Any]:
    return {
        "StackId": stack.id,
        "StackName": stack.name,
        "LogicalResourceId": resource.logical_id,
        "PhysicalResourceId": resource.physical_id,
        "ResourceType": resource.type,
        "ResourceStatus": resource.status,
        "ResourceStatusReason": resource.reason,
        "DriftInformation": {"StackResourceDriftStatus": "NOT_CHECKED"},
    }
