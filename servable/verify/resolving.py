"""Resolves a template's references to the resources that CloudFormation created."""

from collections.abc import Mapping
from typing import Any, Final

from servable_scaling.intrinsics import Evaluator, TemplateError

UNKNOWN: Final = "<known only to CloudFormation>"
"""A value that only CloudFormation knows; it is not compared."""
# What a deployed stack's resources and exports say. All else depends on its parameters.
_KNOWN = ("Ref", "Fn::GetAtt", "Fn::Join", "Fn::Sub", "Fn::ImportValue")
# Where a physical name is not an ARN: what comes before it.
_ARNS = {
    "AWS::IAM::Role": "arn:{partition}:iam::{account}:role/",
    "AWS::KMS::Key": "arn:{partition}:kms:{region}:{account}:key/",
    "AWS::S3::Bucket": "arn:{partition}:s3:::",
    "AWS::CloudWatch::Alarm": "arn:{partition}:cloudwatch:{region}:{account}:alarm:",
    "AWS::CloudWatch::CompositeAlarm": "arn:{partition}:cloudwatch:{region}:{account}:alarm:",
}


class AnyCase(str):
    """A name read out of SageMaker's ARN, which has it in lower case."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.casefold() == other.casefold()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.casefold())


class DeployedEvaluator(Evaluator):
    """Evaluates one deployed stack's template, with `UNKNOWN` for values that are not known here."""

    def __init__(
        self,
        *,
        resources: Mapping[str, Mapping[str, Any]],
        physical: Mapping[str, str],
        pseudo: Mapping[str, str],
        exports: Mapping[str, str],
    ) -> None:
        """`resources`: of the template. `physical`: by logical id. `pseudo`: AWS::Region and its like."""
        super().__init__(pseudo=pseudo, exports=exports)
        self._resources = resources
        self._physical = physical

    def function(self, name: str, argument: Any) -> Any:
        if name not in _KNOWN:
            return UNKNOWN
        try:
            resolved = super().function(name, argument)
        except TemplateError:
            return UNKNOWN
        # A text that is made of an unknown one is not known either.
        return UNKNOWN if isinstance(resolved, str) and UNKNOWN in resolved else resolved

    def dynamic_reference(self, text: str) -> str:
        return UNKNOWN

    def physical_id(self, name: str) -> str:
        return self._physical.get(name, UNKNOWN)

    def attribute(self, name: str, attribute: str) -> str:
        physical = self._physical.get(name)
        if physical is None:
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
        before = _ARNS[resource["Type"]].format(
            partition=self.pseudo["AWS::Partition"],
            region=self.pseudo["AWS::Region"],
            account=self.pseudo["AWS::AccountId"],
        )
        return f"{before}{properties.get('Path', '/').removeprefix('/')}{physical}"
