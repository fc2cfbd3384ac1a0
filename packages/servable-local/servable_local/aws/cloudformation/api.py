"""CloudFormation's operations in the wire format: one method per operation.

moto parses the request and serializes the response by botocore's model. For an operation without
a method, the response is NotImplemented.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, ClassVar
from urllib.parse import urlparse

from moto.core.responses import ActionResult, BaseResponse, EmptyResult

from servable_local.aws.cloudformation.changes import (
    NO_CHANGES,
    ChangeSet,
    check_import,
    list_identifiers,
    plan_changes,
)
from servable_local.aws.cloudformation.operations import CloudFormation
from servable_local.aws.cloudformation.stacks import Stack
from servable_local.aws.cloudformation.template import (
    choose_parameters,
    describe_parameters,
    list_macros,
    parse_template,
    read_template,
)
from servable_local.aws.errors import (
    AlreadyExistsError,
    AwsError,
    ChangeSetNotFoundError,
    ValidationError,
)
from servable_local.aws.loopback import Regions
from servable_local.aws.resources.resource_type import format_violation, format_violations

# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html (2026-11-28)
_LONGEST_BODY = 51_200  # bytes
_TRIGGERS = ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")


class CloudFormationApi(BaseResponse):
    """The API of CloudFormation. `regions` is set when the server is built."""

    regions: ClassVar[Regions[CloudFormation]]

    def __init__(self) -> None:
        super().__init__(service_name="cloudformation")
        self.automated_parameter_parsing = True

    @property
    def service(self) -> CloudFormation:
        return self.regions.provide_service(self.current_account, self.region)

    def _read_template_text(self, previous: str | None = None) -> str:
        if self._get_param("UsePreviousTemplate") and previous is not None:
            return previous
        if url := self._get_param("TemplateURL"):
            return read_template(url, self.service.aws)
        body = self._get_param("TemplateBody")
        if not body:
            raise ValidationError("Either Template URL or Template Body must be specified.")
        if len(str(body).encode()) > _LONGEST_BODY:
            must = f"have length less than or equal to {_LONGEST_BODY}"
            problem = format_violation("templateBody", must, f" '{body}'")
            raise ValidationError(format_violations([problem]))
        return str(body)

    def _choose_parameters(self, text: str, previous: Mapping[str, str]) -> dict[str, str]:
        return choose_parameters(parse_template(text), self._get_param("Parameters", []), previous)

    def _read_new_state(self, stack: Stack | None = None) -> tuple[str, dict[str, str]]:
        """Return the requested template and parameters. Raises `ValidationError`."""
        text = self._read_template_text(stack.template_text if stack else None)
        values = self._choose_parameters(text, stack.parameters if stack else {})
        if problem := self._explain_macro_problem(text):
            raise ValidationError(problem)
        return text, values

    def _explain_macro_problem(self, text: str) -> str | None:
        """Return why a template's macros, which aren't emulated, make it invalid, or None."""
        for macro in list_macros(parse_template(text)):
            if "CAPABILITY_AUTO_EXPAND" not in self._get_param("Capabilities", []):
                problem = "Requires capabilities : [CAPABILITY_AUTO_EXPAND]"
                raise AwsError("InsufficientCapabilitiesException", problem)
            name = macro.get("Name")
            bucket = urlparse(str((macro.get("Parameters") or {}).get("Location", ""))).netloc
            buckets = self.service.aws.client("s3").list_buckets()["Buckets"]
            if name == "AWS::Include" and bucket not in [one["Name"] for one in buckets]:
                return f"Transform {name} failed with: S3 bucket [{bucket}] does not exist."
            return f"No transform named {name} found."
        return None

    def _read_stack_options(self, stack: Stack | None = None) -> dict[str, Any]:
        if role := self._get_param("RoleARN"):
            self.service.check_role(role)
        tags = self._get_param("Tags")
        kept = stack.tags if stack is not None and tags is None else {}
        return {
            "tags": {tag["Key"]: tag["Value"] for tag in tags or []} or dict(kept),
            "capabilities": list(self._get_param("Capabilities", [])),
            "notification_arns": list(self._get_param("NotificationARNs", [])),
            "role_arn": self._get_param("RoleARN"),
        }

    @property
    def _stack(self) -> Stack:
        return self.service.require_stack(self._get_param("StackName"))

    def describe_stacks(self) -> ActionResult:
        name = self._get_param("StackName")
        live = [s for s in self.service.list_stacks() if s.status != "DELETE_COMPLETE"]
        stacks = [self.service.require_stack(name)] if name else live
        # The CDK CLI would ask again after 5 s: it gets its answer when the stack has settled.
        end = time.monotonic() + 20 * ("aws-cdk/" in str(self.headers.get("User-Agent")))
        while name and stacks[0].is_in_progress and time.monotonic() < end:
            time.sleep(0.05)
        return ActionResult({"Stacks": [stack.describe() for stack in stacks]})

    def list_stacks(self) -> ActionResult:
        statuses = self._get_param("StackStatusFilter", [])
        shown = [s for s in self.service.list_stacks() if not statuses or s.status in statuses]
        return ActionResult({"StackSummaries": [stack.describe() for stack in shown]})

    def _find_stack(self, words: str) -> Stack:
        """Return the requested stack, or raise ValidationError with `words` if it doesn't exist."""
        try:
            return self._stack
        except ValidationError:
            raise ValidationError(words.format(self._get_param("StackName"))) from None

    def describe_stack_events(self) -> ActionResult:
        events = self._find_stack("Stack [{}] does not exist").events
        return ActionResult({"StackEvents": events[::-1]})

    def list_stack_resources(self) -> ActionResult:
        shown = self._stack.describe_resources("LastUpdatedTimestamp")
        return ActionResult({"StackResourceSummaries": shown})

    def describe_stack_resources(self) -> ActionResult:
        logical_id, physical_id = self._get_param("LogicalResourceId"), None
        if not self._get_param("StackName"):
            physical_id = self._get_param("PhysicalResourceId")
        stack = self.service.find_resource_stack(physical_id) if physical_id else self._stack
        return ActionResult({"StackResources": stack.describe_resources("Timestamp", logical_id)})

    def describe_stack_resource(self) -> ActionResult:
        stack = self._find_stack("Stack '{}' does not exist")
        logical_id = self._get_param("LogicalResourceId")
        for resource in stack.describe_resources("LastUpdatedTimestamp", logical_id):
            return ActionResult({"StackResourceDetail": resource})
        asked = self._get_param("StackName")
        raise ValidationError(f"Resource {logical_id} does not exist for stack {asked}")

    def get_template(self) -> ActionResult:
        if not self._get_param("StackName"):
            if not self._get_param("ChangeSetName"):
                raise ValidationError("StackName is required if ChangeSetName is not specified.")
            if not self._get_param("ChangeSetName").startswith("arn:"):
                raise ValidationError("StackName is a required parameter.")
        of_change_set = self._get_param("ChangeSetName")
        text = self._find_change_set().text if of_change_set else self._stack.template_text
        return ActionResult({"TemplateBody": text, "StagesAvailable": ["Original", "Processed"]})

    def get_template_summary(self) -> ActionResult:
        name = self._get_param("StackName")
        if name and self._stack.status == "REVIEW_IN_PROGRESS":
            problem = "GetTemplateSummary cannot be called on REVIEW_IN_PROGRESS stacks."
            raise ValidationError(problem)
        text = self._stack.template_text if name else self._read_template_text()
        template = parse_template(text)
        by_type: dict[str, list[str]] = {}
        for logical_id, resource in template["Resources"].items():
            by_type.setdefault(resource["Type"], []).append(logical_id)
        summary = {
            "Description": template.get("Description"),
            "Metadata": str(template["Metadata"]) if "Metadata" in template else None,
            "Version": template.get("AWSTemplateFormatVersion", "2010-09-09"),
            "ResourceTypes": sorted(by_type),
            "ResourceIdentifierSummaries": [
                {"ResourceType": kind, "LogicalResourceIds": ids,
                 "ResourceIdentifiers": list_identifiers(kind)}
                for kind, ids in sorted(by_type.items())],
            "Parameters": describe_parameters(template),
        }  # fmt: skip
        return ActionResult(summary)

    def validate_template(self) -> ActionResult:
        template = parse_template(self._read_template_text())
        parameters = describe_parameters(template)
        for parameter in parameters:
            del parameter["ParameterType"]
        described = template.get("Description")
        return ActionResult({"Description": described, "Parameters": parameters})

    def list_exports(self) -> ActionResult:
        shown = [
            {"ExportingStackId": s.id, "Name": o["ExportName"], "Value": o["OutputValue"]}
            for s in self.service.list_stacks()
            for o in s.outputs
            if "ExportName" in o and s.status != "DELETE_COMPLETE"
        ]
        return ActionResult({"Exports": shown})

    def create_stack(self) -> ActionResult:
        text, values = self._read_new_state()
        name = self._get_param("StackName")
        found = self.service.find_stack(name)
        # As on AWS, it takes over a stack in review, which a change set registered.
        in_review = found is not None and found.status == "REVIEW_IN_PROGRESS"
        stack = found if found is not None and in_review else self.service.register(name)
        stack.termination_protection = bool(self._get_param("EnableTerminationProtection"))
        keep = self._get_param("DisableRollback") or self._get_param("OnFailure") == "DO_NOTHING"
        try:
            about = self._read_stack_options() | {"disable_rollback": bool(keep)}
            self.service.deploy(stack, text, values, **about)
        except Exception:
            if not in_review:
                self.service.forget(stack)
            raise
        return ActionResult({"StackId": stack.id})

    def update_stack(self) -> ActionResult:
        stack = self._find_stack("Stack [{}] does not exist")
        self.service.check_updatable(stack)
        text, values = self._read_new_state(stack)
        self._check_rollback_triggers()
        self._check_types(text)
        about = self._read_stack_options(stack)
        same = parse_template(text) == stack.template and values == stack.parameters
        if same and about["tags"] == stack.tags and stack.status != "UPDATE_FAILED":
            raise ValidationError("No updates are to be performed.")
        keep = bool(self._get_param("DisableRollback"))
        self.service.deploy(stack, text, values, **about, disable_rollback=keep)
        return ActionResult({"StackId": stack.id})

    def _check_rollback_triggers(self) -> None:
        configuration = self._get_param("RollbackConfiguration") or {}
        for trigger in configuration.get("RollbackTriggers", []):
            if trigger.get("Type") not in _TRIGGERS:
                raise ValidationError("Rollback Trigger Type not supported")
            if not trigger["Arn"].split(":", 5)[-1].startswith("alarm:"):
                raise ValidationError("RelativeId of a Rollback Trigger's ARN is incorrect")

    def _check_types(self, text: str) -> None:
        allowed = self._get_param("ResourceTypes")
        for resource in parse_template(text)["Resources"].values() if allowed else ():
            if not any(fnmatchcase(resource["Type"], pattern) for pattern in allowed):
                by = f"parameter ResourceTypes [{', '.join(allowed)}]"
                raise ValidationError(f"Resource type {resource['Type']} is not allowed by {by}")

    def delete_stack(self) -> ActionResult:
        stack = self.service.find_stack(self._get_param("StackName"))
        if stack is not None:
            self.service.delete(stack, frozenset(self._get_param("RetainResources", [])))
        return EmptyResult()

    def update_termination_protection(self) -> ActionResult:
        stack = self._stack
        stack.termination_protection = bool(self._get_param("EnableTerminationProtection"))
        return ActionResult({"StackId": stack.id})

    def create_change_set(self) -> ActionResult:
        kind = self._get_param("ChangeSetType") or "UPDATE"
        name, stack_name = self._get_param("ChangeSetName"), self._get_param("StackName")
        stack = known = self.service.find_stack(stack_name)
        if kind == "CREATE" or (kind == "IMPORT" and stack is None):
            if stack is None:
                # Checked before the stack is registered, so that an invalid template leaves no stack.
                self._choose_parameters(self._read_template_text(), {})
                stack = self.service.register(stack_name)
                stack.set_status("REVIEW_IN_PROGRESS", "User Initiated")
            elif stack.status != "REVIEW_IN_PROGRESS":
                raise ValidationError(
                    f"Stack [{stack_name}] already exists and cannot be created again with the "
                    f"changeSet [{name}]."
                )
        elif stack is None:
            raise ValidationError(f"Stack [{stack_name}] does not exist")
        else:
            self.service.check_updatable(stack)
        if name in stack.change_sets:
            raise AlreadyExistsError(f"ChangeSet {name} already exists")
        try:
            change_set = self._plan_change_set(name, stack, kind)
        except ValidationError:
            if known is None:
                self.service.forget(stack)
            raise
        stack.change_sets[name] = change_set
        return ActionResult({"Id": change_set.id, "StackId": stack.id})

    def _plan_change_set(self, name: str, stack: Stack, kind: str) -> ChangeSet:
        text = self._read_template_text(stack.template_text)
        values = self._choose_parameters(text, stack.parameters)
        about = self._read_stack_options(stack)
        change_set = ChangeSet(name, stack, text, values, about, self._get_param("Description"))
        about["disable_rollback"] = self._get_param("OnStackFailure") == "DO_NOTHING"
        if problem := self._explain_macro_problem(text):
            change_set.fail(problem)
            return change_set
        if kind == "IMPORT":
            change_set.imports = {
                row["LogicalResourceId"]: dict(row["ResourceIdentifier"])
                for row in self._get_param("ResourcesToImport", [])
            }
            check_import(stack, parse_template(text), change_set.imports)
        bound = self.service.bind(stack, text, change_set.parameters)
        change_set.resolved = bound.select_resolved_values(change_set.parameters)
        change_set.changes = [
            replace(change, action="Import") if change.logical_id in change_set.imports else change
            for change in plan_changes(stack, bound)
        ]
        for logical_id, export in bound.not_exported.items():
            change_set.warning = (
                "[WARN] --include-property-values option can return incomplete ChangeSet data because: "
                f"ChangeSet creation failed for resource [{logical_id}] because: No export named {export}"
            )
            break
        same_tags = change_set.about["tags"] == stack.tags
        if kind == "UPDATE" and not change_set.changes and same_tags:
            old, new = stack.template, parse_template(text)
            if old.get("Outputs") == new.get("Outputs") or old == new:
                change_set.fail(NO_CHANGES)
        return change_set

    def _find_change_set(self) -> ChangeSet:
        name, change_set = self._get_param("StackName"), str(self._get_param("ChangeSetName"))
        stack = self.service.find_stack(name) if name else None
        if name and stack is None:
            raise ValidationError(f"Stack [{name}] does not exist")
        if not name and not change_set.startswith("arn:"):
            problem = "StackName must be specified if ChangeSetName is not specified as an ARN."
            raise ValidationError(problem)
        return self.service.find_change_set(change_set, stack)

    def describe_change_set(self) -> ActionResult:
        with_values = bool(self._get_param("IncludePropertyValues"))
        return ActionResult(self._find_change_set().describe(with_values=with_values))

    def execute_change_set(self) -> ActionResult:
        change_set = self._find_change_set()
        if change_set.execution_status != "AVAILABLE":
            raise AwsError(
                "InvalidChangeSetStatus",
                f"ChangeSet [{change_set.id}] cannot be executed in its current status of "
                f"[{change_set.status}]",
            )
        about = dict(change_set.about)
        if self._get_param("DisableRollback") is not None:
            about["disable_rollback"] = bool(self._get_param("DisableRollback"))
        self.service.deploy(
            change_set.stack, change_set.text, change_set.parameters,
            change_set=change_set.id, imports=change_set.imports, **about,
        )  # fmt: skip
        # CloudFormation deletes the stack's other change sets, and keeps this one by its ID.
        change_set.stack.change_sets = {change_set.id: change_set}
        change_set.execution_status = "EXECUTE_COMPLETE"
        return EmptyResult()

    def delete_change_set(self) -> ActionResult:
        with suppress(ChangeSetNotFoundError):  # deleting twice isn't an error
            change_set = self._find_change_set()
            change_set.stack.change_sets.pop(change_set.name, None)
        return EmptyResult()

    def list_change_sets(self) -> ActionResult:
        known = self._find_stack("Stack [{}] does not exist").change_sets.items()
        shown = [change_set.summarize() for name, change_set in known if name == change_set.name]
        return ActionResult({"Summaries": shown})
