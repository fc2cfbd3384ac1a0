"""SageMaker's operations on endpoints, inference components, and their tags."""

from collections.abc import Mapping
from typing import Any

from moto.core.responses import ActionResult, EmptyResult

from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.component import HostedComponent
from servable_local.aws.sagemaker.described import describe_hosted_endpoint, resolve_image
from servable_local.aws.sagemaker.endpoint import HostedEndpoint, list_specified_variants
from servable_local.aws.sagemaker.endpoint_update import check_deployment
from servable_local.aws.sagemaker.instances import list_instance_types
from servable_local.aws.sagemaker.model_api import ModelApi, build_operations

# Settings without effect here.
_WITHOUT_EFFECT = ("BaseInferenceComponentName", "DataCacheConfig", "SchedulingConfig")
_RETAINABLE = frozenset({"DesiredInstanceCount", "DesiredWeight"})


def describe_component(component: HostedComponent) -> dict[str, Any]:
    """Return the response of DescribeInferenceComponent."""
    specification = dict(component.specification)
    if container := specification.pop("Container", None):
        image = resolve_image(component.image)
        rest = {name: value for name, value in container.items() if name != "Image"}
        specification["Container"] = {"DeployedImage": image, **rest}
    serving = component.copies.serving_count
    counts = {"DesiredCopyCount": component.desired, "CurrentCopyCount": serving}
    shown = {
        "InferenceComponentName": component.name,
        "InferenceComponentArn": component.arn,
        "EndpointName": component.endpoint.name,
        "EndpointArn": component.endpoint.arn,
        "VariantName": component.variant_name,
        "FailureReason": component.failure,
        "Specification": specification,
        "RuntimeConfig": counts,
        "CreationTime": component.created,
        "LastModifiedTime": component.modified,
        "InferenceComponentStatus": component.status,
    }
    return {name: value for name, value in shown.items() if value is not None}


def check_change(
    endpoint: HostedEndpoint, config: Mapping[str, Any], deployment: Mapping[str, Any] | None
) -> None:
    """Raise `SageMakerError` for a change that no update may make.

    All wording except the first message's is ours.
    Sources, read 2026-11-22: https://github.com/aws/sagemaker-python-sdk/pull/3124 (only this
    sentence of its message is known), serverless-endpoints-update.html and
    deployment-guardrails-exclusions.html of SageMaker's guide.
    """
    old = endpoint.config
    if "AsyncInferenceConfig" in old and "AsyncInferenceConfig" not in config:
        raise SageMakerError(
            f"The AsyncInferenceConfig parameter cannot be removed from this endpoint {endpoint.name}."
        )
    before, after = old["ProductionVariants"], config["ProductionVariants"]
    serverless = [variant["VariantName"] for variant in after if "ServerlessConfig" in variant]
    if serverless and not all("ServerlessConfig" in variant for variant in before):
        problem = "Updating a real-time endpoint to a serverless endpoint is not supported"
        raise SageMakerError(f'{problem}; variant(s) "[{", ".join(serverless)}]".')
    names, new_names = ({variant["VariantName"] for variant in some} for some in (before, after))
    guarded = {"BlueGreenUpdatePolicy", "RollingUpdatePolicy"} & set(deployment or {})
    if guarded and names != new_names:
        raise SageMakerError(
            "With a deployment configuration the new endpoint configuration must have the same "
            f"variant names as the old one: {', '.join(sorted(names))}."
        )


def _count_instances(config: Mapping[str, Any]) -> int:
    """Return how many instances an endpoint of this configuration starts with, at least one."""
    counts = (variant.get("InitialInstanceCount", 1) for variant in config["ProductionVariants"])
    return max(1, sum(map(int, counts)))


class SageMakerApi(ModelApi):
    """The API of hosting and batch transform; SageMaker's other operations are moto's."""

    describe_endpoint, list_endpoints = build_operations(
        "Endpoint", "endpoints", "Endpoints", describe_hosted_endpoint
    )
    describe_inference_component, list_inference_components = build_operations(
        "InferenceComponent", "components", "InferenceComponents", describe_component
    )

    def create_inference_component(self) -> ActionResult:
        request, here = self._read_request(), self.hosting
        name = request["InferenceComponentName"]
        arn = here.components.name_new(name)
        endpoint = here.endpoints.find(request["EndpointName"])
        request.setdefault("RuntimeConfig", {"CopyCount": 1})
        if request["RuntimeConfig"]["CopyCount"] < 1:
            # The end of SageMaker's sentence: https://github.com/stdapi-ai/stdapi.ai/issues/43 (2026-08-27)
            raise SageMakerError("CopyCount must be an integer larger than 0")
        request["VariantName"] = self._choose_variant(endpoint, request.get("VariantName"))
        self._check_specification(request)
        if endpoint.status != "InService":
            raise SageMakerError(f'Endpoint "{endpoint.arn}" is {endpoint.status}, not InService.')
        self._store_tags(arn, request)
        component = HostedComponent(request, arn, endpoint, here)
        here.components[name.lower()] = component
        component.create()
        return ActionResult({"InferenceComponentArn": arn})

    def _choose_variant(self, endpoint: HostedEndpoint, name: str | None) -> str:
        variants = endpoint.config["ProductionVariants"]
        if any("ModelName" in variant for variant in variants):
            # https://github.com/hashicorp/terraform-provider-aws/issues/40644 (2024-12)
            raise SageMakerError("Inference Components are not supported in this Endpoint.")
        names = [variant["VariantName"] for variant in variants]
        if name not in names and (name or len(names) > 1):
            raise SageMakerError(f"VariantName {name}: the endpoint has {', '.join(names)}.")
        return str(name or names[0])

    def _check_specification(self, request: Mapping[str, Any]) -> None:
        """Raise `SageMakerError`, or NotImplementedError for settings without effect here."""
        if "Specifications" in request or "DeploymentConfig" in request:
            problem = "Specifications and DeploymentConfig have no effect in the local AWS"
            raise NotImplementedError(problem)
        specification = request.get("Specification")
        if specification is None:
            raise SageMakerError("Specification is required.")
        if ignored := [name for name in _WITHOUT_EFFECT if name in specification]:
            raise NotImplementedError(f"{', '.join(ignored)} would have no effect in the local AWS")
        if ("ModelName" in specification) == ("Container" in specification):
            raise SageMakerError("Specification: pass exactly one of ModelName and Container.")
        if "ComputeResourceRequirements" not in specification:
            raise SageMakerError("Specification: ComputeResourceRequirements is required.")
        if model := specification.get("ModelName"):
            definition = self.hosting.models.find(model).request
            if len(definition.get("Containers", [])) > 1:
                # https://github.com/aws/sagemaker-python-sdk sagemaker/serve/utils/ic_utils.py (2026)
                problem = "A model with several containers cannot be an inference component."
                raise SageMakerError(problem)

    def update_inference_component(self) -> ActionResult:
        request = self._read_request()
        component = self.hosting.components.find(request["InferenceComponentName"])
        if set(request) - {"InferenceComponentName", "RuntimeConfig"}:
            self._check_specification(request)
        copies = request.get("RuntimeConfig", {}).get("CopyCount")
        component.update(request.get("Specification"), copies)
        return ActionResult({"InferenceComponentArn": component.arn})

    def update_inference_component_runtime_config(self) -> ActionResult:
        request = self._read_request()
        component = self.hosting.components.find(request["InferenceComponentName"])
        component.update(None, request["DesiredRuntimeConfig"]["CopyCount"])
        return ActionResult({"InferenceComponentArn": component.arn})

    def delete_inference_component(self) -> ActionResult:
        component = self.hosting.components.find(self._get_param("InferenceComponentName"))
        # https://github.com/huggingface/skills/pull/215 (2026-07)
        component.reject_in_progress("deleted")
        component.close()
        self.hosting.components.pop(component.name.lower(), None)
        self.hosting.tags.pop(component.arn, None)
        return EmptyResult()

    def _reject_orphaned(self, endpoint: HostedEndpoint, config: Mapping[str, Any]) -> None:
        """Raise `SageMakerError` if the configuration lacks a component's variant."""
        variants = list_specified_variants(config)
        new = {each["VariantName"] for each in variants if "ModelName" not in each}
        components = self.hosting.list_components(endpoint)
        if left := ", ".join(each.name for each in components if each.variant_name not in new):
            problem = f"Cannot remove the variants of these inference components: {left}."
            raise SageMakerError(problem)

    def create_endpoint(self) -> ActionResult:
        request, here = self._read_request(), self.hosting
        config = here.configs.find(request["EndpointConfigName"])
        name = request["EndpointName"]
        arn = here.endpoints.name_new(name)
        check_deployment(request.get("DeploymentConfig"), _count_instances(config.request))
        self._store_tags(arn, request)
        endpoint = HostedEndpoint(name, arn, config.request, here.build_endpoint_dependencies(name))
        endpoint.deployment_config = request.get("DeploymentConfig")
        here.endpoints[name.lower()] = endpoint
        endpoint.create()
        return ActionResult({"EndpointArn": arn})

    def update_endpoint(self) -> ActionResult:
        request, here = self._read_request(), self.hosting
        endpoint = here.endpoints.find(request["EndpointName"])
        config = here.configs.find(request["EndpointConfigName"]).request
        endpoint.reject_in_progress()
        check_change(endpoint, config, request.get("DeploymentConfig"))
        running = endpoint.fleet.instance_count if endpoint.fleet else 0
        check_deployment(request.get("DeploymentConfig"), max(running, _count_instances(config)))
        self._reject_scaled(endpoint, config)
        self._reject_orphaned(endpoint, config)
        exclusions = request.get("ExcludeRetainedVariantProperties", [])
        excluded = {exclusion["VariantPropertyType"] for exclusion in exclusions}
        retained = _RETAINABLE if request.get("RetainAllVariantProperties") else frozenset[str]()
        deployment = request.get("DeploymentConfig")
        if deployment is None and request.get("RetainDeploymentConfig"):
            deployment = endpoint.deployment_config
        endpoint.update(config, retain=retained - excluded, deployment_config=deployment)
        return ActionResult({"EndpointArn": endpoint.arn})

    def _reject_scaled(self, endpoint: HostedEndpoint, config: Mapping[str, Any]) -> None:
        """Raise `SageMakerError` if a scaled variant goes or changes its instance type."""
        new = {v["VariantName"]: list_instance_types(v) for v in list_specified_variants(config)}
        touched = [
            variant["VariantName"]
            for variant in list_specified_variants(endpoint.config)
            if new.get(variant["VariantName"]) != list_instance_types(variant)
        ]
        scaling = self.hosting.aws.client("application-autoscaling")
        found = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")
        scaled = {target["ResourceId"] for target in found["ScalableTargets"]}
        if refused := [n for n in touched if f"endpoint/{endpoint.name}/variant/{n}" in scaled]:
            deregistered = "must be deregistered as scalable targets with AWS Auto Scaling"
            before = "before they can be removed or have their instance type modified."
            raise SageMakerError(f'The variant(s) "[{", ".join(refused)}]" {deregistered} {before}')

    def update_endpoint_weights_and_capacities(self) -> ActionResult:
        request, here = self._read_request(), self.hosting
        endpoint = here.endpoints.find(request["EndpointName"])
        fleet = endpoint.fleet
        if fleet is None or endpoint.is_in_progress:
            raise SageMakerError(f'Cannot update in-progress endpoint "{endpoint.arn}".')
        variants = {variant.name: variant for variant in fleet.list_variants()}
        changes = request["DesiredWeightsAndCapacities"]
        by_name = {change["VariantName"]: change for change in changes}
        if unknown := [name for name in by_name if name not in variants]:
            raise SageMakerError(f"Variant {unknown[0]} does not exist.")
        for name, change in by_name.items():
            variants[name].weight = change.get("DesiredWeight", variants[name].weight)
        key = "DesiredInstanceCount"
        counts = {name: change[key] for name, change in by_name.items() if key in change}
        endpoint.scale(counts, until_tick=True)
        return ActionResult({"EndpointArn": endpoint.arn})

    def delete_endpoint(self) -> ActionResult:
        here = self.hosting
        endpoint = here.endpoints.find(self._get_param("EndpointName"))

        def remove_records() -> None:
            here.endpoints.pop(endpoint.name.lower(), None)
            here.tags.pop(endpoint.arn, None)

        endpoint.delete(remove_records)
        for component in here.list_components(endpoint):
            component.close()  # its record stays (huggingface/skills#215, 2026-07)
        return EmptyResult()

    def add_tags(self) -> ActionResult:
        arn = self._get_param("ResourceArn")
        if arn not in self.hosting.tags:
            return super().add_tags()
        for tag in self._get_param("Tags"):
            self.hosting.tags[arn][tag["Key"]] = tag["Value"]
        return self.list_tags()

    def list_tags(self) -> ActionResult:
        arn = self._get_param("ResourceArn")
        if arn not in self.hosting.tags:
            return super().list_tags()
        tags = [{"Key": key, "Value": value} for key, value in self.hosting.tags[arn].items()]
        return ActionResult({"Tags": tags})

    def delete_tags(self) -> ActionResult:
        arn = self._get_param("ResourceArn")
        if arn not in self.hosting.tags:
            return super().delete_tags()
        for key in self._get_param("TagKeys"):
            self.hosting.tags[arn].pop(key, None)
        return EmptyResult()
