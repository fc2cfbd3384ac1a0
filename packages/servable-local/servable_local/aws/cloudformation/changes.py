"""The changes that a template would make to a stack: one per resource, kept as a change set."""

import json
import re
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from servable_local.aws.clock import utc_now
from servable_local.aws.cloudformation.bound_template import BoundTemplate
from servable_local.aws.cloudformation.stacks import Stack
from servable_local.aws.cloudformation.template import (
    Template,
    find_references,
    mask_parameters,
    parse_template,
)
from servable_local.aws.errors import ValidationError
from servable_local.aws.resources import TYPES
from servable_scaling.intrinsics import LATER, TemplateError

NO_CHANGES = (
    "The submitted information didn't contain changes. "
    "Submit different information to create a change set."
)


@dataclass(frozen=True)
class ResourceChange:
    """The change of one resource. `replacement`: True, False, or Conditional, as in change sets."""

    action: Literal["Add", "Modify", "Remove", "Import"]
    logical_id: str
    type: str
    physical_id: str | None = None
    properties: frozenset[str] = frozenset()
    replacement: str | None = None
    retained: bool = False
    details: tuple["ChangeDetail", ...] = ()
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None

    @property
    def is_only_possible(self) -> bool:
        """Return whether no value differs yet: only a referenced resource changes in place."""
        return self.action == "Modify" and not self.properties

    def describe(self, *, with_values: bool = False) -> dict[str, Any]:
        """Return the change in the format of DescribeChangeSet."""
        found = {"Properties"} if self.properties else set()
        change: dict[str, Any] = {
            "Action": self.action,
            "LogicalResourceId": self.logical_id,
            "PhysicalResourceId": self.physical_id,
            "Replacement": self.replacement,
            "ResourceType": self.type,
            "Scope": sorted(found | {detail.attribute for detail in self.details}),
            "Details": [
                detail.describe(self.before if with_values else None, self.after)
                for detail in self.details
                if with_values or not detail.with_values
            ],
        }
        kept = "Retain" if self.retained else "Delete"
        if self.action == "Remove":
            change["PolicyAction"] = kept
        elif self.replacement in ("True", "Conditional"):
            change["PolicyAction"] = f"ReplaceAnd{kept}"
        if with_values:
            for context, properties in (("Before", self.before), ("After", self.after)):
                if properties is not None:
                    change[f"{context}Context"] = json.dumps({"Properties": properties})
        return {"Type": "Resource", "ResourceChange": change}


@dataclass(frozen=True)
class ChangeDetail:
    """Why a resource's property or metadata changes. `cause`: the entity that it refers to."""

    attribute: str
    name: str | None
    recreated: bool
    source: str
    static: bool = True
    cause: str | None = None
    with_values: bool = False
    """Whether it is only shown with values."""

    def describe(
        self, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        target: dict[str, Any] = {
            "Attribute": self.attribute,
            "Name": self.name,
            "RequiresRecreation": "Always" if self.recreated else "Never",
        }
        if before is not None and after is not None and self.name is not None:
            sides = {"BeforeValue": before.get(self.name), "AfterValue": after.get(self.name)}
            there = {key: value for key, value in sides.items() if value is not None}
            kinds = {"AfterValue": "Add", "BeforeValue": "Remove"}
            for key, value in there.items():
                target[key] = value if isinstance(value, str) else json.dumps(value)
            target["AttributeChangeType"] = kinds.get(" ".join(there), "Modify")
            target["Path"] = f"/Properties/{self.name}"
        return {
            "Target": target,
            "Evaluation": "Static" if self.static else "Dynamic",
            "ChangeSource": self.source,
            "CausingEntity": self.cause,
        }


def find_changed_properties(old: Mapping[str, Any], new: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(key for key in {*old, *new} if old.get(key) != new.get(key))


def plan_changes(stack: Stack, blueprint: BoundTemplate) -> list[ResourceChange]:
    """Return the changes in the order of their execution. Raises `ValidationError`."""
    changes = []
    blueprint.planning = True
    for logical_id in blueprint.order:
        try:
            change = _plan_change(stack, blueprint, logical_id)
        except TemplateError as error:
            raise ValidationError(str(error)) from None
        if change is None:
            continue
        if change.replacement == "False":
            blueprint.modified.add(logical_id)
        elif not change.is_only_possible:
            # Resources that refer to it get a value that is only known afterwards.
            blueprint.later.add(logical_id)
        changes.append(change)
    return changes + [
        ResourceChange(
            "Remove",
            logical_id,
            resource.type,
            resource.physical_id,
            retained=resource.deletion_policy == "Retain",
            before=resource.properties
            | dict.fromkeys(_list_referring_properties(stack, logical_id), LATER),
        )
        for logical_id, resource in stack.resources.items()
        if logical_id not in blueprint.declared
    ]


def _plan_change(stack: Stack, blueprint: BoundTemplate, logical_id: str) -> ResourceChange | None:
    declared_type = blueprint.declared[logical_id]["Type"]
    properties = blueprint.evaluate_properties(logical_id)
    current = stack.resources.get(logical_id)
    if current is None or current.type != declared_type:
        return ResourceChange("Add", logical_id, declared_type, after=properties)
    changed = find_changed_properties(current.properties, properties)
    if not changed:
        return _plan_possible_change(stack, blueprint, logical_id)
    fixed = changed & TYPES[declared_type].create_only if declared_type in TYPES else changed
    certain = any(LATER not in json.dumps(properties.get(name)) for name in fixed)
    replacement = "True" if certain else "Conditional" if fixed else "False"
    declaration = blueprint.declared[logical_id]
    return ResourceChange(
        "Modify",
        logical_id,
        declared_type,
        current.physical_id,
        changed,
        replacement,
        retained=declaration.get("UpdateReplacePolicy") == "Retain",
        details=tuple(_list_details(stack, blueprint, logical_id, changed, fixed)),
        before=current.properties,
        after=properties,
    )


def _plan_possible_change(
    stack: Stack, blueprint: BoundTemplate, logical_id: str
) -> ResourceChange | None:
    """Return the change that occurs if an attribute of a resource changed in place differs."""
    current = stack.resources[logical_id]
    fixed = TYPES[current.type].create_only if current.type in TYPES else frozenset()
    details = tuple(
        ChangeDetail("Properties", name, name in fixed, "ResourceAttribute", False, cause)
        for name, value in (blueprint.declared[logical_id].get("Properties") or {}).items()
        for cause in _find_referenced_names(value, blueprint.modified)
        if "." in cause
    )
    if not details:
        return None
    replacement = "Conditional" if any(detail.recreated for detail in details) else "False"
    named = (logical_id, current.type, current.physical_id)
    return ResourceChange("Modify", *named, replacement=replacement, details=details)


def _list_referring_properties(stack: Stack, logical_id: str) -> list[str]:
    """Return the properties of a deployed resource whose values come from other resources."""
    declared = (stack.template.get("Resources") or {}).get(logical_id, {}).get("Properties") or {}
    properties = declared.items()
    return [name for name, value in properties if _find_referenced_names(value, stack.resources)]


def _list_details(
    stack: Stack,
    blueprint: BoundTemplate,
    logical_id: str,
    changed: frozenset[str],
    fixed: frozenset[str],
) -> Iterator[ChangeDetail]:
    """Yield the details: changed parameters, then the template's changes, then other resources."""
    new = blueprint.declared[logical_id]
    old = (stack.template.get("Resources") or {}).get(logical_id, {})
    changed_values = _find_changed_parameters(stack, blueprint)
    places: list[tuple[str, str | None, Any, Any]] = []
    metadata = old.get("Metadata"), new.get("Metadata")
    if metadata[0] is not None and _find_referenced_names(metadata[1], changed_values):
        places = [("Metadata", None, *metadata)]
    before, after = old.get("Properties") or {}, new.get("Properties") or {}
    places += [("Properties", key, before.get(key), after.get(key)) for key in sorted(changed)]
    of_parameters, own, of_resources = [], [], []
    for attribute, name, was, now in places:
        target = (attribute, name, name in fixed)
        parameters = _find_referenced_names(now, changed_values)
        resources = _find_referenced_names(now, blueprint.later)
        for cause in parameters:
            of_parameters.append(ChangeDetail(*target, "ParameterReference", cause=cause))
        for cause in resources:
            source = "ResourceAttribute" if "." in cause else "ResourceReference"
            of_resources.append(ChangeDetail(*target, source, cause=cause))
        static = was != now or not (parameters or resources)
        hidden = was == now and bool(resources)
        own.append(ChangeDetail(*target, "DirectModification", static, with_values=hidden))
    yield from (*of_parameters, *own, *of_resources)


def _find_changed_parameters(stack: Stack, blueprint: BoundTemplate) -> set[str]:
    """Return the parameters whose values have changed."""
    now = blueprint.parameters
    # A new value in Parameter Store doesn't change the given name.
    given = {k: v for k, v in stack.parameters.items() if k in now and k not in stack.resolved}
    return {name for name, value in given.items() if str(now[name]) != value}


def _find_referenced_names(value: Any, names: Collection[str]) -> list[str]:
    """Return those of the names to which a template's part refers; attributes as NAME.ATTRIBUTE."""
    found = set()
    for name in {*find_references(value)} & {*names}:
        text = json.dumps(value)
        of_it = re.findall(rf'"Fn::GetAtt": \["{name}", "([^"]+)"\]|\${{{name}\.([\w.]+)}}', text)
        found |= {f"{name}.{first or second}" for first, second in of_it} or {name}
    return sorted(found)


def check_import(stack: Stack, template: Template, imports: Mapping[str, Any]) -> None:
    """Raise `ValidationError` for a change that an import must not make.

    Sources: https://github.com/aws-quickstart/quickstart-awx/issues/38 and
    https://github.com/awslabs/aws-security-assessment-solution/issues/6 (read 2026-11-28); the
    last message is ours.
    """
    declared = template["Resources"]
    bare = [name for name in imports if "DeletionPolicy" not in declared.get(name, {})]
    if bare or not imports:
        raise ValidationError(
            f"The following resources to import [{', '.join(bare)}] must have DeletionPolicy "
            "attribute specified in the template."
        )
    if (template.get("Outputs") or {}) != (stack.template.get("Outputs") or {}):
        raise ValidationError("As part of the import operation, you cannot modify or add [Outputs]")
    if declared.keys() - imports.keys() != stack.resources.keys():
        problem = "An import's template must be the stack's own, plus the resources to import."
        raise ValidationError(problem)


def list_identifiers(kind: str) -> list[str] | None:
    """Return the property by which an import finds a resource; None for topics, found by ARN."""
    name = TYPES[kind].name_property if kind in TYPES else None
    return [name] if name and kind != "AWS::SNS::Topic" else None


@dataclass
class ChangeSet:
    name: str
    stack: Stack
    text: str
    parameters: dict[str, str]
    about: dict[str, Any]
    description: str | None
    changes: list[ResourceChange] = field(default_factory=list)
    imports: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Logical id to the identifier of a resource that exists already."""
    resolved: dict[str, str] = field(default_factory=dict)
    id: str = ""
    status: str = "CREATE_COMPLETE"
    execution_status: str = "AVAILABLE"
    reason: str | None = None
    warning: str | None = None
    """Why values are incomplete."""
    created: Any = field(default_factory=utc_now)

    def __post_init__(self) -> None:
        where = self.stack.id.split(":stack/")[0]
        self.id = f"{where}:changeSet/{self.name}/{uuid.uuid4()}"

    def fail(self, reason: str) -> None:
        self.status, self.execution_status, self.reason = "FAILED", "UNAVAILABLE", reason

    def summarize(self) -> dict[str, Any]:
        return {
            "ChangeSetId": self.id,
            "ChangeSetName": self.name,
            "StackId": self.stack.id,
            "StackName": self.stack.name,
            "Description": self.description,
            "CreationTime": self.created,
            "Status": self.status,
            "StatusReason": self.reason,
            "ExecutionStatus": self.execution_status,
            "IncludeNestedStacks": False,
        }

    def describe(self, *, with_values: bool = False) -> dict[str, Any]:
        masked = mask_parameters(parse_template(self.text), self.parameters, self.resolved)
        return self.summarize() | {
            "Changes": [
                change.describe(with_values=with_values)
                for change in self.changes
                if not (with_values and change.is_only_possible)
            ],
            "StatusReason": self.warning if with_values and self.warning else self.reason,
            "Parameters": masked,
            "Tags": [{"Key": k, "Value": v} for k, v in self.about["tags"].items()] or None,
            "RollbackConfiguration": {},
            "Capabilities": self.about["capabilities"],
            "NotificationARNs": self.about["notification_arns"],
        }
