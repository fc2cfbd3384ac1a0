"""SageMaker's operations on models and endpoint configurations."""

import json
from typing import Any, ClassVar

from botocore.exceptions import ClientError
from moto.core.responses import ActionResult, EmptyResult
from moto.sagemaker.responses import SageMakerResponse

from servable_local.aws.resources.constraints import refusal, unmet
from servable_local.aws.resources.resource_type import ResourceError
from servable_local.aws.resources.shapes import fit
from servable_local.aws.sagemaker import archive
from servable_local.aws.sagemaker.config_refusals import refuse
from servable_local.aws.sagemaker.errors import ValidationError
from servable_local.aws.sagemaker.hosting import Hosting, Record
from servable_local.aws.sagemaker.hostings import Hostings


class ModelApi(SageMakerResponse):
    """`hostings` is set when the server is built. Other operations remain moto's."""

    hostings: ClassVar[Hostings]

    @property
    def here(self) -> Hosting:
        return self.hostings.of(self.current_account, self.region)

    def _asked(self, operation: str) -> dict[str, Any]:
        """The request, held against botocore's model: what it knows, within its limits."""
        try:
            asked = fit(self.params, "sagemaker", operation)
        except ResourceError as error:
            raise ValidationError(f"1 validation error detected: {error}") from None
        if found := unmet(asked, "sagemaker", operation):
            raise ValidationError(refusal(found))
        return asked

    def _tag(self, arn: str, asked: dict[str, Any]) -> None:
        given = asked.pop("Tags", [])
        self.here.tags[arn] = {tag["Key"]: tag["Value"] for tag in given}

    def create_model(self) -> ActionResult:
        asked, here = self._asked("CreateModel"), self.here
        name = asked["ModelName"]
        arn = here.arn("model", name)
        if name.lower() in here.models:
            raise ValidationError(f'Cannot create already existing model "{arn}".')
        containers = asked.get("Containers") or [asked.get("PrimaryContainer")]
        if containers == [None]:
            raise ValidationError("You must provide either PrimaryContainer or Containers.")
        self._check_role(asked.get("ExecutionRoleArn"))
        for container in containers:
            if url := archive.data_url(container):
                archive.check_exists(url, here.aws)
        self._tag(arn, asked)
        here.models[name.lower()] = Record(arn, asked)
        return ActionResult({"ModelArn": arn})

    def _check_role(self, arn: str | None) -> None:
        refusal = (
            f"Could not assume role {arn}. Please ensure that the role exists and allows "
            "principal 'sagemaker.amazonaws.com' to assume the role."
        )
        try:
            name = (arn or "").rsplit("/", 1)[-1]
            role = self.here.aws.client("iam").get_role(RoleName=name)["Role"]
        except (ClientError, ValueError):
            raise ValidationError(refusal) from None
        if "sagemaker.amazonaws.com" not in json.dumps(role["AssumeRolePolicyDocument"]):
            raise ValidationError(refusal)

    def describe_model(self) -> ActionResult:
        record = self.here.model(self._get_param("ModelName"))
        return ActionResult(
            record.request | {"ModelArn": record.arn, "CreationTime": record.created}
        )

    def list_models(self) -> ActionResult:
        models = [
            {
                "ModelName": record.request["ModelName"],
                "ModelArn": record.arn,
                "CreationTime": record.created,
            }
            for record in self.here.models.values()
        ]
        return ActionResult({"Models": models})

    def delete_model(self) -> ActionResult:
        record = self.here.model(self._get_param("ModelName"))
        del self.here.models[record.request["ModelName"].lower()]
        self.here.tags.pop(record.arn, None)
        return EmptyResult()

    def create_endpoint_config(self) -> ActionResult:
        asked, here = self._asked("CreateEndpointConfig"), self.here
        name = asked["EndpointConfigName"]
        arn = here.arn("endpoint-config", name)
        if name.lower() in here.configs:
            raise ValidationError(f'Cannot create already existing endpoint configuration "{arn}".')
        names = [variant["VariantName"] for variant in asked["ProductionVariants"]]
        if len(set(names)) < len(names):
            raise ValidationError(f"Variant names must differ; given: {', '.join(names)}.")
        for variant in asked["ProductionVariants"] + asked.get("ShadowProductionVariants", []):
            if "ModelName" in variant:
                here.model(variant["ModelName"])
        refuse(asked)
        self._tag(arn, asked)
        here.configs[name.lower()] = Record(arn, asked)
        return ActionResult({"EndpointConfigArn": arn})

    def describe_endpoint_config(self) -> ActionResult:
        record = self.here.config(self._get_param("EndpointConfigName"))
        return ActionResult(
            record.request | {"EndpointConfigArn": record.arn, "CreationTime": record.created}
        )

    def list_endpoint_configs(self) -> ActionResult:
        configs = [
            {
                "EndpointConfigName": record.request["EndpointConfigName"],
                "EndpointConfigArn": record.arn,
                "CreationTime": record.created,
            }
            for record in self.here.configs.values()
        ]
        return ActionResult({"EndpointConfigs": configs})

    def delete_endpoint_config(self) -> ActionResult:
        record = self.here.config(self._get_param("EndpointConfigName"))
        del self.here.configs[record.request["EndpointConfigName"].lower()]
        self.here.tags.pop(record.arn, None)
        return EmptyResult()
