"""A template's references as what they became, from the resources that CloudFormation made."""

import re
from collections.abc import Mapping
from typing import Any, Final

UNKNOWN: Final = "\0unknown"
"""Stands for what only CloudFormation knows; it is not compared."""


class AnyCase(str):
    """A name read out of SageMaker's ARN, which has it in lower case."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.casefold() == other.casefold()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.casefold())


class Scope:
    """One deployed stack: its resources' physical names, and where it is."""

    def __init__(
        self,
        *,
        physical: Mapping[str, str],
        types: Mapping[str, str],
        pseudo: Mapping[str, str],
        exports: Mapping[str, str],
        endpoint_names: Mapping[str, str],
    ) -> None:
        """`physical`, `types`, `endpoint_names`: by logical id. `pseudo`: AWS::Region and its like."""
        self._literals = endpoint_names
        self.physical = physical
        self._types = types
        self._pseudo = pseudo
        self._exports = exports

    def resolve(self, part: Any) -> Any:
        """Text and numbers; `UNKNOWN` in the place of what cannot be known here."""
        if isinstance(part, list):
            return [self.resolve(one) for one in part]
        if not isinstance(part, Mapping):
            return part
        if len(part) == 1:
            ((function, argument),) = part.items()
            if function == "Ref" or function.startswith("Fn::"):
                return self._function(function, argument)
        return {key: self.resolve(value) for key, value in part.items()}

    def _function(self, function: str, argument: Any) -> Any:
        if function == "Ref":
            return self._pseudo.get(argument, self.physical.get(argument, UNKNOWN))
        if function == "Fn::GetAtt":
            return self._attribute(*argument)
        if function == "Fn::Join":
            parts = [self.resolve(one) for one in argument[1]]
            return UNKNOWN if UNKNOWN in parts else argument[0].join(map(str, parts))
        if function == "Fn::Sub" and isinstance(argument, str):
            return self._sub(argument)
        if function == "Fn::ImportValue":
            return self._exports.get(str(self.resolve(argument)), UNKNOWN)
        return UNKNOWN

    def _sub(self, text: str) -> str:
        def one(match: re.Match[str]) -> str:
            name, dot, attribute = match[1].partition(".")
            return str(self._attribute(name, attribute) if dot else self._function("Ref", name))

        made = re.sub(r"\$\{([^!}]+)\}", one, text)
        return UNKNOWN if UNKNOWN in made else made

    def _attribute(self, logical: str, attribute: str) -> str:
        made = self.physical.get(logical)
        if made is None:
            return UNKNOWN
        kind = self._types[logical]
        if attribute in ("ModelName", "EndpointConfigName"):
            return AnyCase(made.rsplit("/", 1)[-1])
        if attribute == "EndpointName":
            return self._literals.get(logical, UNKNOWN)
        if attribute in ("TopicArn", "Arn") and made.startswith("arn:"):
            return made
        partition, region, account = (
            self._pseudo[f"AWS::{one}"] for one in ("Partition", "Region", "AccountId")
        )
        forms = {
            ("AWS::IAM::Role", "Arn"): f"arn:{partition}:iam::{account}:role/{made}",
            ("AWS::KMS::Key", "Arn"): f"arn:{partition}:kms:{region}:{account}:key/{made}",
            ("AWS::S3::Bucket", "Arn"): f"arn:{partition}:s3:::{made}",
            (
                "AWS::CloudWatch::Alarm",
                "Arn",
            ): f"arn:{partition}:cloudwatch:{region}:{account}:alarm:{made}",
            (
                "AWS::CloudWatch::CompositeAlarm",
                "Arn",
            ): f"arn:{partition}:cloudwatch:{region}:{account}:alarm:{made}",
        }
        return forms.get((kind, attribute), UNKNOWN)
