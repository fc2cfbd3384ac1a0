"""SageMaker's operations on inference components."""

from collections.abc import Mapping
from typing import Any

from moto.core.responses import ActionResult, EmptyResult

from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.component import HostedComponent
from servable_local.aws.sagemaker.described import deployed_image
from servable_local.aws.sagemaker.endpoint import HostedEndpoint, specified_variants
from servable_local.aws.sagemaker.listings import list_page
from servable_local.aws.sagemaker.transform_api import TransformApi

# What would be kept here and change nothing.
_WITHOUT_EFFECT = ("BaseInferenceComponentName", "DataCacheConfig", "SchedulingConfig")
_SUMMARY = (
    *("InferenceComponentName", "InferenceComponentArn", "InferenceComponentStatus"),
    *("EndpointName", "EndpointArn", "VariantName", "CreationTime", "LastModifiedTime"),
)


def described_component(component: HostedComponent) -> dict[str, Any]:
    """DescribeInferenceComponent's answer."""
    specification = dict(component.specification)
    if container := specification.pop("Container", None):
        image = deployed_image(component.image)
        rest = {name: value for name, value in container.items() if name != "Image"}
        specification["Container"] = {"DeployedImage": image, **rest}
    shown = {
        "InferenceComponentName": component.name,
        "InferenceComponentArn": component.arn,
        "EndpointName": component.endpoint.name,
        "EndpointArn": component.endpoint.arn,
        "VariantName": component.variant_name,
        "FailureReason": component.failure,
        "Specification": specification,
        "RuntimeConfig": {
            "DesiredCopyCount": component.desired,
            "CurrentCopyCount": component.copies.serving,
        },
        "CreationTime": component.created,
        "LastModifiedTime": component.modified,
        "InferenceComponentStatus": component.status,
    }
    return {name: value for name, value in shown.items() if value is not None}


class ComponentApi(TransformApi):
    """Inference components, batch transform, models and configurations."""

    def create_inference_component(self) -> ActionResult:
        request, here = self._asked(), self.here
        name = request["InferenceComponentName"]
        arn = here.arn("inference-component", name)
        if name.lower() in here.components:
            raise SageMakerError(f'Cannot create already existing inference component "{arn}".')
        endpoint = here.endpoint(request["EndpointName"])
        request.setdefault("RuntimeConfig", {"CopyCount": 1})
        if request["RuntimeConfig"]["CopyCount"] < 1:
            # The end of SageMaker's sentence: https://github.com/stdapi-ai/stdapi.ai/issues/43 (2026-08-27)
            raise SageMakerError("CopyCount must be an integer larger than 0")
        request["VariantName"] = self._variant_of(endpoint, request.get("VariantName"))
        self._check_specification(request)
        if endpoint.status != "InService":
            raise SageMakerError(f'Endpoint "{endpoint.arn}" is {endpoint.status}, not InService.')
        self._tag(arn, request)
        around = here.component_dependencies(name, request["VariantName"])
        component = here.components[name.lower()] = HostedComponent(request, arn, endpoint, around)
        component.create()
        return ActionResult({"InferenceComponentArn": arn})

    def _variant_of(self, endpoint: HostedEndpoint, name: str | None) -> str:
        variants = endpoint.config["ProductionVariants"]
        if any("ModelName" in variant for variant in variants):
            # https://github.com/hashicorp/terraform-provider-aws/issues/40644 (2024-12)
            raise SageMakerError("Inference Components are not supported in this Endpoint.")
        names = [variant["VariantName"] for variant in variants]
        if name not in names and (name or len(names) > 1):
            raise SageMakerError(f"VariantName {name}: the endpoint has {', '.join(names)}.")
        return str(name or names[0])

    def _check_specification(self, request: Mapping[str, Any]) -> None:
        """Raises `SageMakerError`, or NotImplementedError for what would have no effect here."""
        if "Specifications" in request or "DeploymentConfig" in request:
            raise NotImplementedError("Specifications and DeploymentConfig have no effect here")
        specification = request.get("Specification")
        if specification is None:
            raise SageMakerError("Specification is required.")
        if ignored := [name for name in _WITHOUT_EFFECT if name in specification]:
            raise NotImplementedError(f"{', '.join(ignored)} would have no effect here")
        if ("ModelName" in specification) == ("Container" in specification):
            raise SageMakerError("Specification: give ModelName or Container, exactly one of them.")
        if "ComputeResourceRequirements" not in specification:
            raise SageMakerError("Specification: ComputeResourceRequirements is required.")
        if model := specification.get("ModelName"):
            definition = self.here.models.get(model).request
            if len(definition.get("Containers", [])) > 1:
                # https://github.com/aws/sagemaker-python-sdk sagemaker/serve/utils/ic_utils.py (2026)
                raise SageMakerError("A model of several containers cannot be a component.")

    def describe_inference_component(self) -> ActionResult:
        component = self.here.component(self._get_param("InferenceComponentName"))
        return ActionResult(described_component(component))

    def list_inference_components(self) -> ActionResult:
        summaries = [
            {name: description[name] for name in _SUMMARY}
            for description in map(described_component, list(self.here.components.values()))
        ]
        page = list_page(self._asked(), "InferenceComponent", summaries, "InferenceComponents")
        return ActionResult(page)

    def update_inference_component(self) -> ActionResult:
        request = self._asked()
        component = self.here.component(request["InferenceComponentName"])
        if set(request) - {"InferenceComponentName", "RuntimeConfig"}:
            self._check_specification(request)
        copies = request.get("RuntimeConfig", {}).get("CopyCount")
        component.update(request.get("Specification"), copies)
        return ActionResult({"InferenceComponentArn": component.arn})

    def update_inference_component_runtime_config(self) -> ActionResult:
        request = self._asked()
        component = self.here.component(request["InferenceComponentName"])
        component.scale(request["DesiredRuntimeConfig"]["CopyCount"])
        return ActionResult({"InferenceComponentArn": component.arn})

    def delete_inference_component(self) -> ActionResult:
        component = self.here.component(self._get_param("InferenceComponentName"))
        # https://github.com/huggingface/skills/pull/215 (2026-07)
        component.refuse_in_progress("deleted")
        component.close()
        self.here.components.pop(component.name.lower(), None)
        self.here.tags.pop(component.arn, None)
        return EmptyResult()

    def _refuse_left(self, endpoint: HostedEndpoint, config: Mapping[str, Any]) -> None:
        """Raises `SageMakerError` for a configuration that leaves a component without its variant."""
        new = {
            each["VariantName"] for each in specified_variants(config) if "ModelName" not in each
        }
        if left := [c for c in self.here.components_of(endpoint) if c.variant_name not in new]:
            names = ", ".join(component.name for component in left)
            raise SageMakerError(f"The variants of inference components must stay: {names}.")
