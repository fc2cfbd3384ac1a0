"""SageMaker's operations on endpoints, and on the tags of what is hosted."""

from collections.abc import Mapping
from typing import Any

from moto.core.responses import ActionResult, EmptyResult

from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.component_api import ComponentApi
from servable_local.aws.sagemaker.described import described
from servable_local.aws.sagemaker.endpoint import HostedEndpoint, specified_variants
from servable_local.aws.sagemaker.endpoint_update import reject_deployment
from servable_local.aws.sagemaker.instances import instance_types
from servable_local.aws.sagemaker.listings import list_page

_RETAINABLE = frozenset({"DesiredInstanceCount", "DesiredWeight"})


def refuse_change(
    endpoint: HostedEndpoint, config: Mapping[str, Any], deployment: Mapping[str, Any] | None
) -> None:
    """Raises `SageMakerError` for what no update may change. All words but the first one's are ours.

    Sources, read 2026-11-22: https://github.com/aws/sagemaker-python-sdk/pull/3124 (of its message no
    more than this sentence is known), serverless-endpoints-update.html and
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
        raise SageMakerError(
            "Updating a real-time endpoint to a serverless endpoint is not supported; variant(s) "
            f'"[{", ".join(serverless)}]".'
        )
    names, new_names = ({variant["VariantName"] for variant in some} for some in (before, after))
    guarded = {"BlueGreenUpdatePolicy", "RollingUpdatePolicy"} & set(deployment or {})
    if guarded and names != new_names:
        raise SageMakerError(
            "With a deployment configuration the new endpoint configuration must have the same "
            f"variant names as the old one: {', '.join(sorted(names))}."
        )


def _instances(config: Mapping[str, Any]) -> int:
    """Return the instances with which an endpoint of this configuration starts, at least one."""
    counts = (variant.get("InitialInstanceCount", 1) for variant in config["ProductionVariants"])
    return max(1, sum(map(int, counts)))


class SageMakerApi(ComponentApi):
    """All of hosting and batch transform; the other operations of SageMaker remain moto's."""

    def create_endpoint(self) -> ActionResult:
        request, here = self._asked(), self.here
        name, config = request["EndpointName"], here.configs.get(request["EndpointConfigName"])
        arn = here.arn("endpoint", name)
        if name.lower() in here.endpoints:
            raise SageMakerError(f'Cannot create already existing endpoint "{arn}".')
        reject_deployment(request.get("DeploymentConfig"), _instances(config.request))
        self._tag(arn, request)
        endpoint = HostedEndpoint(name, arn, config.request, here.dependencies(name))
        endpoint.deployment_config = request.get("DeploymentConfig")
        here.endpoints[name.lower()] = endpoint
        endpoint.create()
        return ActionResult({"EndpointArn": arn})

    def update_endpoint(self) -> ActionResult:
        request, here = self._asked(), self.here
        endpoint = here.endpoint(request["EndpointName"])
        config = here.configs.get(request["EndpointConfigName"]).request
        if endpoint.in_progress:
            raise SageMakerError(f'Cannot update in-progress endpoint "{endpoint.arn}".')
        refuse_change(endpoint, config, request.get("DeploymentConfig"))
        running = endpoint.fleet.instance_count if endpoint.fleet else 0
        reject_deployment(request.get("DeploymentConfig"), max(running, _instances(config)))
        self._refuse_scaled(endpoint, config)
        self._refuse_left(endpoint, config)
        exclusions = request.get("ExcludeRetainedVariantProperties", [])
        excluded = {exclusion["VariantPropertyType"] for exclusion in exclusions}
        retain = (
            _RETAINABLE - excluded if request.get("RetainAllVariantProperties") else frozenset()
        )
        deployment = request.get("DeploymentConfig")
        if deployment is None and request.get("RetainDeploymentConfig"):
            deployment = endpoint.deployment_config
        endpoint.update(config, retain=retain, deployment_config=deployment)
        return ActionResult({"EndpointArn": endpoint.arn})

    def _refuse_scaled(self, endpoint: HostedEndpoint, config: Mapping[str, Any]) -> None:
        """A scaled variant can neither go nor change its instance type."""
        new = {v["VariantName"]: instance_types(v) for v in specified_variants(config)}
        touched = [
            variant["VariantName"]
            for variant in specified_variants(endpoint.config)
            if new.get(variant["VariantName"]) != instance_types(variant)
        ]
        targets = self.here.aws.client("application-autoscaling").describe_scalable_targets(
            ServiceNamespace="sagemaker"
        )["ScalableTargets"]
        scaled = {target["ResourceId"] for target in targets}
        refused = [n for n in touched if f"endpoint/{endpoint.name}/variant/{n}" in scaled]
        if refused:
            raise SageMakerError(
                f'The variant(s) "[{", ".join(refused)}]" must be deregistered as scalable '
                "targets with AWS Auto Scaling before they can be removed or have their "
                "instance type modified."
            )

    def update_endpoint_weights_and_capacities(self) -> ActionResult:
        request, here = self._asked(), self.here
        endpoint = here.endpoint(request["EndpointName"])
        fleet = endpoint.fleet
        if fleet is None or endpoint.in_progress:
            raise SageMakerError(f'Cannot update in-progress endpoint "{endpoint.arn}".')
        variants = {variant.name: variant for variant in fleet.everybody()}
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

    def describe_endpoint(self) -> ActionResult:
        return ActionResult(described(self.here.endpoint(self._get_param("EndpointName"))))

    def list_endpoints(self) -> ActionResult:
        summaries = [
            {
                "EndpointName": endpoint.name,
                "EndpointArn": endpoint.arn,
                "CreationTime": endpoint.created,
                "LastModifiedTime": endpoint.modified,
                "EndpointStatus": endpoint.status,
            }
            for endpoint in list(self.here.endpoints.values())
        ]
        return ActionResult(list_page(self._asked(), "Endpoint", summaries, "Endpoints"))

    def delete_endpoint(self) -> ActionResult:
        here = self.here
        endpoint = here.endpoint(self._get_param("EndpointName"))

        def forget() -> None:
            here.endpoints.pop(endpoint.name.lower(), None)
            here.tags.pop(endpoint.arn, None)

        endpoint.delete(forget)
        for component in here.components_of(endpoint):
            component.close()  # it stays, and its name is taken (huggingface/skills#215, 2026-07)
        return EmptyResult()

    # --- tags of whatever is hosted

    def add_tags(self) -> ActionResult:
        arn = self._get_param("ResourceArn")
        if arn not in self.here.tags:
            return super().add_tags()
        for tag in self._get_param("Tags"):
            self.here.tags[arn][tag["Key"]] = tag["Value"]
        return self.list_tags()

    def list_tags(self) -> ActionResult:
        arn = self._get_param("ResourceArn")
        if arn not in self.here.tags:
            return super().list_tags()
        tags = [{"Key": key, "Value": value} for key, value in self.here.tags[arn].items()]
        return ActionResult({"Tags": tags})

    def delete_tags(self) -> ActionResult:
        arn = self._get_param("ResourceArn")
        if arn not in self.here.tags:
            return super().delete_tags()
        for key in self._get_param("TagKeys"):
            self.here.tags[arn].pop(key, None)
        return EmptyResult()
