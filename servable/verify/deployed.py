"""A stack as CloudFormation deployed it: every resource with its expected properties."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from servable.project.account import Account, unless_absent
from servable.verify.resolving import DeployedEvaluator


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource of a stack. `properties` are resolved."""

    logical: str
    type: str
    physical: str
    properties: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The physical name without the prefix of an ARN."""
        return self.physical.rsplit("/", 1)[-1] if ":sagemaker:" in self.physical else self.physical


@dataclass(frozen=True, kw_only=True)
class DeployedStack:
    """One deployed stack."""

    account: Account
    name: str
    status: str
    template: Mapping[str, Any]
    resources: tuple[Resource, ...]

    def of(self, kind: str) -> Iterator[Resource]:
        """Return the resources of one CloudFormation type."""
        return (resource for resource in self.resources if resource.type == kind)

    @property
    def overrides(self) -> dict[str, str]:
        """The overrides given with -c when it was deployed."""
        overrides: dict[str, str] = (self.template.get("Metadata") or {}).get("Overrides", {})
        return overrides

    def reason(self) -> str:
        """Return why its last update was rolled back, if an event says so."""
        events = self.account.client("cloudformation").describe_stack_events(StackName=self.name)
        for event in events["StackEvents"]:
            cause = str(event.get("ResourceStatusReason") or "")
            if event["ResourceStatus"].endswith("_FAILED") and "cancelled" not in cause and cause:
                return f"{event['LogicalResourceId']}: {cause}"
        return "no event says why"


def deployed(account: Account, name: str) -> DeployedStack | None:
    """Return a deployed stack; None if it does not exist. Raises one of `AwsError`."""
    cloudformation = account.client("cloudformation")
    stacks = unless_absent(cloudformation.describe_stacks, StackName=name)
    if stacks is None:
        return None
    described = stacks["Stacks"][0]
    body = cloudformation.get_template(StackName=name)["TemplateBody"]
    template = body if isinstance(body, dict) else json.loads(body)
    resources = template["Resources"]
    physical = {
        summary["LogicalResourceId"]: summary["PhysicalResourceId"]
        for summary in account.pages(
            "cloudformation", "list_stack_resources", "StackResourceSummaries", StackName=name
        )
        if summary.get("PhysicalResourceId")
    }
    evaluator = DeployedEvaluator(
        resources=resources,
        physical=physical,
        pseudo=_pseudo(account, described),
        exports={
            export["Name"]: export["Value"]
            for export in account.pages("cloudformation", "list_exports", "Exports")
        },
    )
    return DeployedStack(
        account=account,
        name=name,
        status=described["StackStatus"],
        template=template,
        resources=tuple(
            Resource(
                logical=logical,
                type=resource["Type"],
                physical=physical.get(logical, ""),
                properties=evaluator.evaluate(resource.get("Properties", {})),
            )
            for logical, resource in resources.items()
        ),
    )


def _pseudo(account: Account, described: Mapping[str, Any]) -> dict[str, str]:
    partition = str(described["StackId"]).split(":")[1]
    suffix = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
    return {
        "AWS::AccountId": account.number,
        "AWS::Region": account.region,
        "AWS::Partition": partition,
        "AWS::URLSuffix": suffix,
        "AWS::StackName": str(described["StackName"]),
        "AWS::StackId": str(described["StackId"]),
    }
