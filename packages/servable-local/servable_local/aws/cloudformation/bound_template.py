"""A template bound to one stack: its resources once parameters and conditions are known.

Dynamic references refer to a value of Parameter Store or Secrets Manager.
Source: dynamic-references-ssm.html, dynamic-references-ssm-secure-strings.html, and
dynamic-references-secretsmanager.html of CloudFormation's user guide.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from servable_local.aws.cloudformation.stacks import Stack, StackResource
from servable_local.aws.cloudformation.template import (
    NOT_A_STRING,
    Template,
    compute_creation_order,
    find_dependencies,
    find_references,
    walk_objects,
)
from servable_local.aws.errors import ValidationError
from servable_local.aws.loopback import Loopback
from servable_scaling.intrinsics import LATER, Evaluator, TemplateError

_REFERENCE = re.compile(r"\{\{resolve:([^:{}]*):([^{}]*)\}\}")
_PARAMETER = re.compile(r"(?P<name>[a-zA-Z0-9_.\-/]+)(?::(?P<version>[0-9]*))?")
# The parts after the secret's name or ARN may be empty, and omitted from the right.
_SECRET = re.compile(
    r"(?P<SecretId>arn(?::[^:]+){6}|[^:]+)(?::(?:SecretString)?"
    r"(?::(?P<key>[^:]*)(?::(?P<VersionStage>[^:]*)(?::(?P<VersionId>[^:]*))?)?)?)?"
)


class DynamicReferences:
    """The values to which one account's templates refer, in one Region."""

    def __init__(self, aws: Loopback) -> None:
        self._aws = aws

    def resolve(self, value: Any) -> Any:
        """Return the value with references to parameters replaced; those to secrets stay.

        Raises `TemplateError` for a parameter that doesn't exist, and for an invalid reference.
        """
        return _map_texts(value, self._resolve_text)

    def reveal(self, value: Any) -> Any:
        """Return the value with references to secrets replaced too, for a single call.

        A stack keeps references. Raises `TemplateError`, or the service's error for a missing
        secret.
        """
        return _map_texts(value, lambda text: _REFERENCE.sub(self._replace_secret, text))

    def _resolve_text(self, text: str) -> str:
        if "{{resolve:" in text and LATER in text:
            return LATER
        return _REFERENCE.sub(self._replace_parameter, text)

    def _replace_parameter(self, reference: re.Match[str]) -> str:
        service, named = reference.groups()
        if service == "secretsmanager" and _SECRET.fullmatch(named):
            return reference[0]
        if service not in ("ssm", "ssm-secure") or not _PARAMETER.fullmatch(named):
            raise TemplateError(f"The dynamic reference {reference[0]} is invalid.")
        if service == "ssm-secure":
            return reference[0]
        parameter = self._read_parameter(named)
        if parameter["Type"] == "SecureString":
            raise TemplateError(
                f"The parameter in {reference[0]} is a SecureString; refer to it with ssm-secure."
            )
        return str(parameter["Value"])

    def _replace_secret(self, reference: re.Match[str]) -> str:
        service, named = reference.groups()
        if service == "ssm-secure":
            return str(self._read_parameter(named)["Value"])
        secret = _SECRET.fullmatch(named)
        if service != "secretsmanager" or secret is None:
            return reference[0]
        asked = {name: part for name, part in secret.groupdict().items() if part}
        key = asked.pop("key", None)
        found = self._aws.client("secretsmanager").get_secret_value(**asked)["SecretString"]
        if key is None:
            return str(found)
        try:
            return str(json.loads(found)[key])
        except (ValueError, KeyError, TypeError):
            raise TemplateError(
                f"Could not find a value associated with JSONKey in SecretString: {reference[0]}"
            ) from None

    def _read_parameter(self, named: str) -> Any:
        ssm = self._aws.client("ssm")
        try:
            return ssm.get_parameter(Name=named.rstrip(":"), WithDecryption=True)["Parameter"]
        except ClientError:
            raise TemplateError(f"Parameter {named} cannot be found in Parameter Store.") from None


def _map_texts(value: Any, change: Any) -> Any:
    if isinstance(value, dict):
        return {key: _map_texts(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map_texts(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


class BoundTemplate(Evaluator):
    """The active resources in creation order. `later` contains resources that don't exist yet."""

    def __init__(
        self,
        stack: Stack,
        template: Template,
        parameters: Mapping[str, Any],
        exports: Mapping[str, str],
        stored: DynamicReferences,
    ) -> None:
        """Evaluate conditions and rules. Raises `ValidationError` for a contradictory template."""
        super().__init__(
            pseudo={
                "AWS::AccountId": stack.account,
                "AWS::Region": stack.region,
                "AWS::StackId": stack.id,
                "AWS::StackName": stack.name,
                "AWS::URLSuffix": "amazonaws.com",
                "AWS::Partition": "aws",
            },
            exports=exports,
            parameters=parameters,
            mappings=template.get("Mappings"),
        )
        self.template = template
        self.later: set[str] = set()
        self.modified: set[str] = set()  # in place
        self.planning = False
        self.not_exported: dict[str, str] = {}  # resource to the missing export that it imports
        self._asking = ""
        self._resources, self._stored = stack.resources, stored
        try:
            conditions = template.get("Conditions") or {}
            waits_for = {name: _find_conditions(value) for name, value in conditions.items()}
            error, block = (
                "Template format error: Unresolved",
                "the Conditions block of the template",
            )
            for missing in sorted(set().union(*waits_for.values()) - {*conditions}):
                raise TemplateError(f"{error} condition dependency {missing} in {block}")
            if unknown := sorted({*find_references(conditions)} - {*self.parameters, *self.pseudo}):
                names = f"dependencies [{', '.join(unknown)}]"
                raise TemplateError(f"{error} {names}. Cannot reference resources in {block}")
            for name in compute_creation_order(waits_for):
                self.conditions[name] = bool(self.evaluate(conditions[name]))
            self._check_rules()
        except TemplateError as problem:
            raise ValidationError(str(problem)) from None
        self.declared = self._select_active(template["Resources"])
        declared = self.declared
        self.depends_on = {k: find_dependencies(v) & declared.keys() for k, v in declared.items()}
        self.order = compute_creation_order(self.depends_on)
        self._check_names()

    def select_resolved_values(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the values of stored parameters, whose names were given as values."""
        return {
            name: value
            for name, value in self.parameters.items()
            if isinstance(value, str) and value != given[name]
        }

    def find_physical_id(self, name: str) -> Any:
        return LATER if name in self.later else self._find_resource(name).physical_id

    def find_attribute(self, name: str, attribute: str) -> Any:
        if name in self.later:
            return LATER
        resource = self._find_resource(name)
        if attribute not in resource.attributes:
            names = ", ".join(sorted(resource.attributes)) or "none"
            raise TemplateError(
                f"Requested attribute {attribute} does not exist in schema for {resource.type}; "
                f"the local AWS has: {names}"
            )
        return resource.attributes[attribute]

    def handle_dynamic_reference(self, text: str) -> str:
        # Resolved later, with the whole text: a function may join it with more.
        return text

    def import_value(self, name: str) -> str:
        # As on AWS, only the deployment fails for a missing export.
        if self.planning and name not in self.exports:
            self.not_exported.setdefault(self._asking, name)
            return LATER
        return super().import_value(name)

    def _find_resource(self, name: str) -> StackResource:
        if name not in self._resources:
            problem = f"Template error: Unresolved resource dependencies [{name}] in the template"
            raise TemplateError(problem)
        return self._resources[name]

    def evaluate_properties(self, logical_id: str) -> dict[str, Any]:
        """Evaluate the properties of a resource. Raises `TemplateError`."""
        self._asking = logical_id
        evaluated = self.evaluate(self.declared[logical_id].get("Properties") or {})
        result = self._stored.resolve(evaluated)
        assert isinstance(result, dict)
        return result

    def evaluate_outputs(self) -> list[dict[str, Any]]:
        """Evaluate the outputs in the format of DescribeStacks. Raises `TemplateError`."""
        shown = []
        for key, output in self._select_active(self.template.get("Outputs") or {}).items():
            value = self._stored.resolve(self.evaluate(output["Value"]))
            if isinstance(value, list | dict):
                raise TemplateError(f"Template format error: {NOT_A_STRING}.")
            described = {
                "OutputKey": key,
                "OutputValue": str(value).lower() if isinstance(value, bool) else str(value),
                "Description": output.get("Description"),
            }
            if "Export" in output:
                described["ExportName"] = self.evaluate(output["Export"]["Name"])
            shown.append(described)
        return shown

    def _select_active(self, section: Mapping[str, Any]) -> dict[str, Any]:
        """Return the section's members whose conditions are true."""
        named = {name: each.get("Condition") for name, each in section.items()}
        try:
            active = [k for k, name in named.items() if name is None or self.find_condition(name)]
        except TemplateError as error:
            raise ValidationError(str(error)) from None
        return {name: section[name] for name in active}

    def _check_rules(self) -> None:
        """Raise `ValidationError` if a rule fails, such as CDK's check of the bootstrap version."""
        for rule in (self.template.get("Rules") or {}).values():
            if "RuleCondition" in rule and not self.evaluate(rule["RuleCondition"]):
                continue
            for assertion in rule["Assertions"]:
                if not self.evaluate(assertion["Assert"]):
                    raise ValidationError(
                        "Template validation error: "
                        + assertion.get("AssertDescription", "an assertion of a rule is false")
                    )

    def _check_names(self) -> None:
        properties = [each.get("Properties") or {} for each in self.declared.values()]
        named = {*find_references(self._select_branches(properties))}
        stated = {name for each in self.declared.values() for name in find_dependencies(each)}
        named |= stated - {*self.template["Resources"]}
        if unknown := self._join_unknown_names(named):
            raise ValidationError(
                f"Template format error: Unresolved resource dependencies [{unknown}] "
                "in the Resources block of the template"
            )
        outputs = self._select_active(self.template.get("Outputs") or {})
        values = self._select_branches([output["Value"] for output in outputs.values()])
        if unknown := self._join_unknown_names({*find_references(values)}):
            raise ValidationError(
                f"Unresolved resource dependencies [{unknown}] in the Outputs block of the template"
            )

    def _join_unknown_names(self, named: set[str]) -> str:
        """Return the names that are neither an active resource nor a parameter, joined by commas."""
        named = named - {*self.declared, *self.parameters, *self.pseudo, "AWS::NoValue"}
        unknown = (name for name in named if not name.startswith("AWS::NotificationARNs"))
        return ", ".join(sorted(unknown))

    def _select_branches(self, value: Any) -> Any:
        """Return the value without unselected Fn::If branches: they may name missing resources."""
        if isinstance(value, list):
            return [self._select_branches(item) for item in value]
        if not isinstance(value, dict):
            return value
        branches = value.get("Fn::If")
        if isinstance(branches, list) and len(branches) == 3 and branches[0] in self.conditions:
            name, true, false = branches
            return self._select_branches(true if self.conditions[name] else false)
        return {key: self._select_branches(item) for key, item in value.items()}


def _find_conditions(value: Any) -> set[str]:
    named = (each.get("Condition") for each in walk_objects(value))
    return {name for name in named if isinstance(name, str)}
