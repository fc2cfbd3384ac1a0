"""Dynamic references: texts of a template that name a value of Parameter Store or Secrets Manager.

Source: dynamic-references-ssm.html, dynamic-references-ssm-secure-strings.html, and
dynamic-references-secretsmanager.html of CloudFormation's user guide.
"""

import json
import re
from typing import Any

from botocore.exceptions import ClientError

from servable_local.aws.loopback import Loopback
from servable_scaling.intrinsics import LATER, TemplateError

_REFERENCE = re.compile(r"\{\{resolve:([^:{}]*):([^{}]*)\}\}")
_PARAMETER = re.compile(r"(?P<name>[a-zA-Z0-9_.\-/]+)(?::(?P<version>[0-9]*))?")
# The parts after the secret's name or ARN may be left out from the right, and be empty.
_SECRET = re.compile(
    r"(?P<id>arn(?::[^:]+){6}|[^:]+)"
    r"(?::(?:SecretString)?(?::(?P<key>[^:]*)(?::(?P<stage>[^:]*)(?::(?P<version>[^:]*))?)?)?)?"
)


class DynamicReferences:
    """The values that one account's templates refer to, in one Region."""

    def __init__(self, aws: Loopback) -> None:
        self._aws = aws

    def resolve(self, value: Any) -> Any:
        """Return the value with the parameters that it refers to; secret ones stay references.

        Raises `TemplateError` for a parameter that doesn't exist, and for an invalid reference.
        """
        return _map_texts(value, self._resolve_text)

    def reveal(self, value: Any) -> Any:
        """Return the value with its secrets too, for one call: a stack keeps references to them.

        Raises `TemplateError`, or the service's error for a secret that doesn't exist.
        """
        return _map_texts(value, lambda text: _REFERENCE.sub(self._secret_value, text))

    def _resolve_text(self, text: str) -> str:
        if "{{resolve:" in text and LATER in text:
            return LATER
        return _REFERENCE.sub(self._parameter_value, text)

    def _parameter_value(self, reference: re.Match[str]) -> str:
        service, named = reference.groups()
        if service == "secretsmanager" and _SECRET.fullmatch(named):
            return reference[0]
        if service not in ("ssm", "ssm-secure") or not _PARAMETER.fullmatch(named):
            raise TemplateError(f"The dynamic reference {reference[0]} is invalid.")
        if service == "ssm-secure":
            return reference[0]
        parameter = self._parameter(named)
        if parameter["Type"] == "SecureString":
            raise TemplateError(
                f"The parameter in {reference[0]} is a SecureString; refer to it with ssm-secure."
            )
        return str(parameter["Value"])

    def _secret_value(self, reference: re.Match[str]) -> str:
        service, named = reference.groups()
        if service == "ssm-secure":
            return str(self._parameter(named)["Value"])
        secret = _SECRET.fullmatch(named)
        if service != "secretsmanager" or secret is None:
            return reference[0]
        asked = {"SecretId": secret["id"]}
        for name, group in (("VersionStage", "stage"), ("VersionId", "version")):
            if secret[group]:
                asked[name] = secret[group]
        found = self._aws.client("secretsmanager").get_secret_value(**asked)["SecretString"]
        if not secret["key"]:
            return str(found)
        try:
            return str(json.loads(found)[secret["key"]])
        except (ValueError, KeyError, TypeError):
            raise TemplateError(
                f"Could not find a value associated with JSONKey in SecretString: {reference[0]}"
            ) from None

    def _parameter(self, named: str) -> Any:
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
