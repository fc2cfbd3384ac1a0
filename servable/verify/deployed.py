"""Read a deployed stack from CloudFormation: every resource with its resolved properties."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from servable.project.account import Account, fetch_or_none
from servable_scaling.intrinsics import Evaluator, TemplateError

Properties = Mapping[str, Any]
"""The properties of a resource by name, from a template or from AWS."""
UNKNOWN: Final = "<known only to CloudFormation>"
"""A value that only CloudFormation knows; it is not compared."""
# Functions whose values follow from a stack's resources and exports; others depend on its parameters.
_KNOWN = ("Ref", "Fn::GetAtt", "Fn::Join", "Fn::Sub", "Fn::ImportValue")
_ALARM = "arn:${AWS::Partition}:cloudwatch:${AWS::Region}:${AWS::AccountId}:alarm:"
# The prefix that turns a physical name into an ARN.
_ARNS = {
    "AWS::IAM::Role": "arn:${AWS::Partition}:iam::${AWS::AccountId}:role/",
    "AWS::KMS::Key": "arn:${AWS::Partition}:kms:${AWS::Region}:${AWS::AccountId}:key/",
    "AWS::S3::Bucket": "arn:${AWS::Partition}:s3:::",
    "AWS::CloudWatch::Alarm": _ALARM,
    "AWS::CloudWatch::CompositeAlarm": _ALARM,
}


class AnyCase(str):
    """A name from a SageMaker ARN, which is in lower case; it compares without regard to case."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.casefold() == other.casefold()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.casefold())


class DeployedEvaluator(Evaluator):
    """Evaluates a deployed stack's template, with `UNKNOWN` for unavailable values."""

    def __init__(
        self,
        *,
        resources: Mapping[str, Properties],
        physical: Mapping[str, str],
        pseudo: Mapping[str, str],
        exports: Mapping[str, str],
    ) -> None:
        """Store what the template refers to.

        `physical`: the physical IDs by logical ID. `pseudo`: pseudo parameters such as AWS::Region.
        """
        super().__init__(pseudo=pseudo, exports=exports)
        self._resources, self._physical = resources, physical

    def evaluate_function(self, name: str, argument: Any) -> Any:
        if name not in _KNOWN:
            return UNKNOWN
        try:
            resolved = super().evaluate_function(name, argument)
        except TemplateError:
            return UNKNOWN
        # A text that contains an unknown one isn't known either.
        return UNKNOWN if isinstance(resolved, str) and UNKNOWN in resolved else resolved

    def handle_dynamic_reference(self, text: str) -> str:
        return UNKNOWN

    def find_physical_id(self, name: str) -> str:
        return self._physical.get(name, UNKNOWN)

    def find_attribute(self, name: str, attribute: str) -> str:
        if (physical := self._physical.get(name)) is None:
            return UNKNOWN
        if attribute in ("ModelName", "EndpointConfigName"):
            return AnyCase(physical.rsplit("/", 1)[-1])
        resource = self._resources[name]
        properties = resource.get("Properties", {})
        if attribute == "EndpointName":
            return str(properties.get("EndpointName", UNKNOWN))
        if attribute in ("TopicArn", "Arn") and physical.startswith("arn:"):
            return physical
        if attribute != "Arn" or resource["Type"] not in _ARNS:
            return UNKNOWN
        before = self.evaluate({"Fn::Sub": _ARNS[resource["Type"]]})
        return f"{before}{properties.get('Path', '/').removeprefix('/')}{physical}"


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource of a stack. `properties` are resolved."""

    logical: str
    type: str
    physical: str
    properties: Properties

    @property
    def name(self) -> str:
        """Return the physical name, without the prefix of a SageMaker ARN."""
        return self.physical.rsplit("/", 1)[-1] if ":sagemaker:" in self.physical else self.physical


@dataclass(frozen=True, kw_only=True)
class DeployedStack:
    """A stack as CloudFormation deployed it."""

    account: Account
    name: str
    status: str
    template: Mapping[str, Any]
    resources: tuple[Resource, ...]

    def find_resources(self, kind: str) -> Iterator[Resource]:
        """Return the resources of one CloudFormation type."""
        return (resource for resource in self.resources if resource.type == kind)

    def fetch(self, service: str, operation: str, **parameters: Any) -> Any:
        """Return the response of an operation, or None if the resource doesn't exist."""
        return fetch_or_none(getattr(self.account.client(service), operation), **parameters)

    @property
    def overrides(self) -> dict[str, str]:
        """Return the overrides that were given with -c when the stack was deployed."""
        overrides: dict[str, str] = (self.template.get("Metadata") or {}).get("Overrides", {})
        return overrides

    def find_rollback_reason(self) -> str:
        """Return why the stack's last update was rolled back.

        If no event contains the reason, the text is "no event gives the reason".
        """
        events = self.account.client("cloudformation").describe_stack_events(StackName=self.name)
        for event in events["StackEvents"]:
            cause = str(event.get("ResourceStatusReason") or "")
            if event["ResourceStatus"].endswith("_FAILED") and "cancelled" not in cause and cause:
                return f"{event['LogicalResourceId']}: {cause}"
        return "no event gives the reason"


def read_stack(account: Account, name: str) -> DeployedStack | None:
    """Return a deployed stack, or None if it doesn't exist. Raises one of `AwsError`."""
    cloudformation = account.client("cloudformation")
    stacks = fetch_or_none(cloudformation.describe_stacks, StackName=name)
    if stacks is None:
        return None
    described = stacks["Stacks"][0]
    body = cloudformation.get_template(StackName=name)["TemplateBody"]
    template = body if isinstance(body, dict) else json.loads(body)
    resources = template["Resources"]
    summaries = ("cloudformation", "list_stack_resources", "StackResourceSummaries")
    physical = {
        summary["LogicalResourceId"]: summary["PhysicalResourceId"]
        for summary in account.iterate_items(*summaries, StackName=name)
        if summary.get("PhysicalResourceId")
    }
    partition = str(described["StackId"]).split(":")[1]
    pseudo = {
        "AWS::AccountId": account.number,
        "AWS::Region": account.region,
        "AWS::Partition": partition,
        "AWS::URLSuffix": "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com",
        "AWS::StackName": str(described["StackName"]),
        "AWS::StackId": str(described["StackId"]),
    }
    listed = account.iterate_items("cloudformation", "list_exports", "Exports")
    exports = {export["Name"]: export["Value"] for export in listed}
    evaluator = DeployedEvaluator(
        resources=resources, physical=physical, pseudo=pseudo, exports=exports
    )
    evaluated = (
        Resource(
            logical=logical,
            type=resource["Type"],
            physical=physical.get(logical, ""),
            properties=evaluator.evaluate(resource.get("Properties", {})),
        )
        for logical, resource in resources.items()
    )
    status = described["StackStatus"]
    return DeployedStack(
        account=account, name=name, status=status, template=template, resources=tuple(evaluated)
    )
