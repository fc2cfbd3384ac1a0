"""CloudFormation's operations as the wire has them: one method per operation.

moto parses the request and serializes the answer by botocore's model; an operation without
a method is answered NotImplemented. The operations: reading_api.py, stack_api.py,
change_set_api.py.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from moto.core.responses import BaseResponse

from servable_local.aws.cloudformation import parameters
from servable_local.aws.cloudformation.backend import Backend, Region
from servable_local.aws.cloudformation.errors import ValidationError
from servable_local.aws.cloudformation.stack import Stack
from servable_local.aws.cloudformation.template import parse
from servable_local.aws.cloudformation.template_url import fetch
from servable_local.aws.loopback import Loopback


class Api(BaseResponse):
    """What every operation needs. `backend` is set when the server is built."""

    backend: ClassVar[Backend]

    def __init__(self) -> None:
        super().__init__(service_name="cloudformation")
        self.automated_parameter_parsing = True

    @property
    def here(self) -> Region:
        return self.backend.region(self.current_account, self.region)

    @property
    def aws(self) -> Loopback:
        return self.backend.loopback(self.current_account, self.region)

    def _text(self, previous: str | None = None) -> str:
        if self._get_param("UsePreviousTemplate") and previous is not None:
            return previous
        if url := self._get_param("TemplateURL"):
            return fetch(url, self.aws)
        body = self._get_param("TemplateBody")
        if not body:
            raise ValidationError("Either Template URL or Template Body must be specified.")
        return str(body)

    def _chosen(self, text: str, previous: Mapping[str, str]) -> dict[str, str]:
        return parameters.chosen(parse(text), self._get_param("Parameters", []), previous)

    def _about(self, stack: Stack | None = None) -> dict[str, Any]:
        tags = self._get_param("Tags")
        kept = stack.tags if stack is not None and tags is None else {}
        return {
            "tags": {tag["Key"]: tag["Value"] for tag in tags or []} or dict(kept),
            "capabilities": list(self._get_param("Capabilities", [])),
            "notification_arns": list(self._get_param("NotificationARNs", [])),
            "role_arn": self._get_param("RoleARN"),
        }
