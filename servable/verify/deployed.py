"""A stack as CloudFormation says it deployed it: every resource with what it should be."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from servable.aws_account import Account, unless_absent
from servable.verify.resolving import DeployedEvaluator


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One of the stack. `properties` are resolved."""

    logical: str
    type: str
    physical: str
    properties: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Without what an ARN puts before it."""
        return self.physical.rsplit("/", 1)[-1] if ":sagemaker:" in self.physical else self.physical


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """One deployed stack."""

    account: Account
    name: str
    status: str
    template: Mapping[str, Any]
    resources: tuple[Resource, ...]

    def of(self, kind: str) -> Iterator[Resource]:
        """Those of one CloudFormation type."""
        return (one for one in self.resources if one.type == kind)

    @property
    def overrides(self) -> dict[str, str]:
        """What was given with -c when it was deployed."""
        found: dict[str, str] = (self.template.get("Metadata") or {}).get("Overrides", {})
        return found

    def reason(self) -> str:
        """Why its last update was taken back, as far as an event says."""
        events = self.account.client("cloudformation").describe_stack_events(StackName=self.name)
        for one in events["StackEvents"]:
            said = str(one.get("ResourceStatusReason") or "")
            if one["ResourceStatus"].endswith("_FAILED") and "cancelled" not in said and said:
                return f"{one['LogicalResourceId']}: {said}"
        return "no event says why"


def deployed(account: Account, name: str) -> Deployed | None:
    """None where there is no such stack. Raises one of `servable.aws_account.AwsError`."""
    cloudformation = account.client("cloudformation")
    found = unless_absent(cloudformation.describe_stacks, StackName=name)
    if found is None:
        return None
    described = found["Stacks"][0]
    body = cloudformation.get_template(StackName=name)["TemplateBody"]
    template = body if isinstance(body, dict) else json.loads(body)
    made = list(
        account.pages(
            "cloudformation", "list_stack_resources", "StackResourceSummaries", StackName=name
        )
    )
    physical = {
        one["LogicalResourceId"]: one["PhysicalResourceId"]
        for one in made
        if one.get("PhysicalResourceId")
    }
    evaluator = DeployedEvaluator(
        physical=physical,
        types={logical: one["Type"] for logical, one in template["Resources"].items()},
        pseudo=_pseudo(account, described),
        endpoint_names={
            logical: one["Properties"]["EndpointName"]
            for logical, one in template["Resources"].items()
            if one["Type"] == "AWS::SageMaker::Endpoint"
        },
        paths={
            logical: one["Properties"]["Path"]
            for logical, one in template["Resources"].items()
            if one["Type"] == "AWS::IAM::Role" and "Path" in one["Properties"]
        },
        exports={
            one["Name"]: one["Value"]
            for one in account.pages("cloudformation", "list_exports", "Exports")
        },
    )
    return Deployed(
        account=account,
        name=name,
        status=described["StackStatus"],
        template=template,
        resources=tuple(
            Resource(
                logical=logical,
                type=one["Type"],
                physical=physical.get(logical, ""),
                properties=evaluator.evaluate(one.get("Properties", {})),
            )
            for logical, one in template["Resources"].items()
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
