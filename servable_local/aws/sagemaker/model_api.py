"""SageMaker's operations on models and endpoint configurations."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from botocore.exceptions import ClientError
from moto.core.responses import ActionResult, EmptyResult
from moto.sagemaker.responses import SageMakerResponse

from servable_local.aws.errors import SageMakerValidationError
from servable_local.aws.resources.shapes import ResourceError, fit, refusal, unmet
from servable_local.aws.sagemaker.hosting import Hostings, RegionalHosting, StoredDefinition
from servable_local.aws.sagemaker.model_data import check_model_data, data_url


def refuse_mixed_kinds(asked: Mapping[str, Any]) -> None:
    """Raises `SageMakerValidationError` for what CreateEndpointConfig refuses."""
    variants = asked["ProductionVariants"]
    shadows = asked.get("ShadowProductionVariants", [])
    queue = "AsyncInferenceConfig" in asked
    if any("ServerlessConfig" in one for one in [*variants, *shadows]):
        if len(variants) + len(shadows) > 1:
            raise SageMakerValidationError(
                "A serverless endpoint has exactly one production variant."
            )
        for name in ("AsyncInferenceConfig", "DataCaptureConfig"):
            if name in asked:
                raise SageMakerValidationError(f"{name} is not supported with ServerlessConfig.")
        if "InstanceType" in variants[0] or "InitialInstanceCount" in variants[0]:
            raise SageMakerValidationError(
                "Give ServerlessConfig or an instance type, and not both."
            )
    if shadows and (len(variants), len(shadows)) != (1, 1):
        raise SageMakerValidationError(
            "With ShadowProductionVariants there is exactly one variant in each of both lists."
        )
    if shadows and queue:
        raise SageMakerValidationError(
            "AsyncInferenceConfig is not supported with shadow variants."
        )


class ModelApi(SageMakerResponse):
    """`hostings` is set when the server is built. Other operations remain moto's."""

    hostings: ClassVar[Hostings]

    @property
    def here(self) -> RegionalHosting:
        return self.hostings.of(self.current_account, self.region)

    def _asked(self, operation: str) -> dict[str, Any]:
        """The request, held against botocore's model: what it knows, within its limits."""
        try:
            asked = fit(self.params, "sagemaker", operation)
        except ResourceError as error:
            raise SageMakerValidationError(f"1 validation error detected: {error}") from None
        if found := unmet(asked, "sagemaker", operation):
            raise SageMakerValidationError(refusal(found))
        return asked

    def _tag(self, arn: str, asked: dict[str, Any]) -> None:
        given = asked.pop("Tags", [])
        self.here.tags[arn] = {tag["Key"]: tag["Value"] for tag in given}

    def create_model(self) -> ActionResult:
        asked, here = self._asked("CreateModel"), self.here
        name = asked["ModelName"]
        arn = here.arn("model", name)
        if name.lower() in here.models:
            raise SageMakerValidationError(f'Cannot create already existing model "{arn}".')
        containers = asked.get("Containers") or [asked.get("PrimaryContainer")]
        if containers == [None]:
            raise SageMakerValidationError(
                "You must provide either PrimaryContainer or Containers."
            )
        self._check_role(asked.get("ExecutionRoleArn"))
        for container in containers:
            if url := data_url(container):
                check_model_data(url, here.aws)
        self._tag(arn, asked)
        here.models[name.lower()] = StoredDefinition(arn, asked)
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
            raise SageMakerValidationError(refusal) from None
        if "sagemaker.amazonaws.com" not in json.dumps(role["AssumeRolePolicyDocument"]):
            raise SageMakerValidationError(refusal)

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
            raise SageMakerValidationError(
                f'Cannot create already existing endpoint configuration "{arn}".'
            )
        names = [variant["VariantName"] for variant in asked["ProductionVariants"]]
        if len(set(names)) < len(names):
            raise SageMakerValidationError(f"Variant names must differ; given: {', '.join(names)}.")
        for variant in asked["ProductionVariants"] + asked.get("ShadowProductionVariants", []):
            if "ModelName" in variant:
                here.model(variant["ModelName"])
        refuse_mixed_kinds(asked)
        self._tag(arn, asked)
        here.configs[name.lower()] = StoredDefinition(arn, asked)
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
