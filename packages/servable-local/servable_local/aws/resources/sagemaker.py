"""SageMaker's models, configurations, endpoints, and components, and the scaling of variants.

Physical names are ARNs. An ARN contains the name in lower case, and SageMaker accepts it.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

from servable_local.aws.resources.resource_type import (
    Logical,
    Physical,
    Properties,
    ResourceError,
    ResourceType,
    map_tags,
)

_SERVICE = "application-autoscaling"
# In their order in a target's physical name.
_KEY = ("ResourceId", "ScalableDimension", "ServiceNamespace")
# Shortest and longest time between polls: an update may bake for an hour.
_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.01, 0.1
# Properties for updates only.
_UPDATE_ONLY = (
    "ExcludeRetainedVariantProperties", "RetainAllVariantProperties", "RetainDeploymentConfig",
)  # fmt: skip


class ScalableTarget(ResourceType):
    type = "AWS::ApplicationAutoScaling::ScalableTarget"
    create_only = frozenset(_KEY)

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        key = {name: new[name] for name in _KEY}
        actions = new.get("ScheduledActions", [])
        names = {action["ScheduledActionName"] for action in actions}
        for action in old.get("ScheduledActions", []):
            if (name := action["ScheduledActionName"]) not in names:
                logical.call(_SERVICE, "DeleteScheduledAction", key | {"ScheduledActionName": name})
        # Registering again updates the target.
        settings = {name: value for name, value in new.items() if name != "ScheduledActions"}
        if tags := new.get("Tags"):
            settings["Tags"] = map_tags(tags)
        logical.call(_SERVICE, "RegisterScalableTarget", settings)
        for action in actions:
            logical.call(_SERVICE, "PutScheduledAction", {**key, **action})
        target = "|".join(key.values())
        return Physical(target, {"Id": target})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        client = logical.client(_SERVICE)
        with suppress(client.exceptions.ObjectNotFoundException):
            # Its endpoint may already be deleted, and the target with it.
            client.deregister_scalable_target(**_parse_target(physical))


class ScalingPolicy(ResourceType):
    type = "AWS::ApplicationAutoScaling::ScalingPolicy"
    create_only = frozenset({"PolicyName", *_KEY, "ScalingTargetId"})

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        arn = logical.call(_SERVICE, "PutScalingPolicy", _resolve_target(new))["PolicyARN"]
        return Physical(arn, {"Arn": arn, "PolicyName": new["PolicyName"]})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        client, policy = logical.client(_SERVICE), _resolve_target(properties)
        with suppress(client.exceptions.ObjectNotFoundException):
            # Its target may already be deleted, and the policy with it.
            client.delete_scaling_policy(**{name: policy[name] for name in ("PolicyName", *_KEY)})


def _resolve_target(properties: Properties) -> dict[str, Any]:
    """Replace `ScalingTargetId`, a single string, with the API's three values."""
    policy = dict(properties)
    target = policy.pop("ScalingTargetId", None)
    return policy | _parse_target(target) if target else policy


def _parse_target(target: str) -> dict[str, str]:
    return dict(zip(_KEY, target.split("|"), strict=True))


class SageMakerModel(ResourceType):
    """A model. Only its tags can be updated: any other change creates a new model.

    `kind`: the resource's name in SageMaker's operations, properties, and ARNs.
    """

    type = "AWS::SageMaker::Model"
    kind: ClassVar[str] = "Model"
    create_only = frozenset({
        "Containers", "EnableNetworkIsolation", "ExecutionRoleArn", "InferenceExecutionConfig",
        "ModelName", "PrimaryContainer", "VpcConfig",
    })  # fmt: skip
    name_property = "ModelName"
    longest_name = 63

    def create(self, properties: Properties, logical: Logical) -> Physical:
        name = self.choose_name(properties, logical)
        arguments = {**properties, f"{self.kind}Name": name}
        answer = logical.call("sagemaker", f"Create{self.kind}", arguments)
        return self._build_physical(answer[f"{self.kind}Arn"], name)

    def import_existing(self, identifier: Mapping[str, str], logical: Logical) -> Physical:
        arn = identifier[f"{self.kind}Arn"]
        description = self._call_operation("Describe", arn, logical)
        return self._build_physical(arn, description[f"{self.kind}Name"])

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        arn = {"ResourceArn": physical}
        logical.update_tags("sagemaker", arn, old, new, ("AddTags", "DeleteTags"))
        description = self._call_operation("Describe", physical, logical)
        return self._build_physical(physical, description[f"{self.kind}Name"])

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        self._call_operation("Delete", physical, logical)

    def _call_operation(self, verb: str, arn: str, logical: Logical) -> Any:
        name = {f"{self.kind}Name": arn.split("/", 1)[1]}
        return logical.call("sagemaker", f"{verb}{self.kind}", name)

    def _build_physical(self, arn: str, name: str) -> Physical:
        return Physical(arn, {f"{self.kind}Name": name, f"{self.kind}Arn": arn, "Id": arn})


class SageMakerEndpointConfig(SageMakerModel):
    """An endpoint configuration. Only tags can be updated; other changes create a new one."""

    type = "AWS::SageMaker::EndpointConfig"
    kind = "EndpointConfig"
    create_only = frozenset({
        "AsyncInferenceConfig", "DataCaptureConfig", "EnableNetworkIsolation", "EndpointConfigName",
        "ExecutionRoleArn", "ExplainerConfig", "KmsKeyId", "MetricsConfig", "ProductionVariants",
        "ShadowProductionVariants", "VpcConfig",
    })  # fmt: skip
    name_property = "EndpointConfigName"


class SageMakerEndpoint(SageMakerModel):
    """An endpoint. Its creation and updates wait until it serves, as in CloudFormation."""

    type = "AWS::SageMaker::Endpoint"
    kind = "Endpoint"
    name_property = "EndpointName"

    def create(self, properties: Properties, logical: Logical) -> Physical:
        arguments = {k: v for k, v in properties.items() if k not in _UPDATE_ONLY}
        endpoint = super().create(arguments, logical)
        logical.exists(endpoint.physical_id)
        self._wait_until_serving(endpoint.physical_id, logical)
        return endpoint

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        config = new["EndpointConfigName"].rsplit("/", 1)[-1]
        current = self._call_operation("Describe", physical, logical)
        # In a rollback, SageMaker already serves the old configuration again.
        if current["EndpointConfigName"] != config or current["EndpointStatus"] == "Failed":
            arguments = {k: v for k, v in new.items() if k != "Tags"}
            arguments |= {"EndpointName": current["EndpointName"], "EndpointConfigName": config}
            logical.call("sagemaker", "UpdateEndpoint", arguments)
            self._wait_until_serving(physical, logical, config)
        return super().update(physical, old, new, logical)

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        try:
            super().delete(physical, properties, logical)
            while True:
                self._call_operation("Describe", physical, logical)
                time.sleep(_POLL_SECONDS)
        except logical.client("sagemaker").exceptions.ClientError as error:
            if "Could not find endpoint" not in str(error):
                raise

    def _wait_until_serving(self, arn: str, logical: Logical, config: str | None = None) -> None:
        """Wait until the endpoint serves with this configuration. Raises `ResourceError`."""
        poll_seconds = _POLL_SECONDS
        while True:
            endpoint = self._call_operation("Describe", arn, logical)
            status = endpoint["EndpointStatus"]
            if status == "InService" and config in (None, endpoint["EndpointConfigName"]):
                return
            if status not in ("Creating", "Updating", "SystemUpdating", "RollingBack"):
                raise ResourceError(endpoint.get("FailureReason", status))
            time.sleep(poll_seconds)
            poll_seconds = min(poll_seconds * 1.5, _LONGEST_POLL_SECONDS)


class SageMakerInferenceComponent(SageMakerModel):
    """A component. Changes wait until its copies serve; only the name needs a new resource.

    Our choice: an update that changes the specification or the count of copies sends both; it
    isn't documented what CloudFormation's own handler sends.
    """

    type = "AWS::SageMaker::InferenceComponent"
    kind = "InferenceComponent"
    create_only = frozenset[str]()
    name_property = "InferenceComponentName"

    def create(self, properties: Properties, logical: Logical) -> Physical:
        arguments = {k: v for k, v in properties.items() if k != "DeploymentConfig"}
        component = super().create(arguments, logical)
        logical.exists(component.physical_id)
        self._wait_until_idle(component.physical_id, logical)
        return component

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        sent = {k: new[k] for k in ("Specification", "RuntimeConfig") if k in new}
        if any(old.get(key) != value for key, value in sent.items()):
            self._wait_until_idle(physical, logical, failed=True)
            name = {"InferenceComponentName": physical.split("/", 1)[1]}
            deployment = {k: new[k] for k in ("DeploymentConfig",) if k in new}
            logical.call("sagemaker", "UpdateInferenceComponent", name | sent | deployment)
            self._wait_until_idle(physical, logical)
        return super().update(physical, old, new, logical)

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        try:
            self._wait_until_idle(physical, logical, failed=True)
            super().delete(physical, properties, logical)
        except logical.client("sagemaker").exceptions.ClientError as error:
            if "Could not find inference component" not in str(error):
                raise

    def _wait_until_idle(self, arn: str, logical: Logical, *, failed: bool = False) -> None:
        """Wait while it changes. Raises `ResourceError` for a failure, unless `failed`."""
        while True:
            component = self._call_operation("Describe", arn, logical)
            if component["InferenceComponentStatus"] not in ("Creating", "Updating"):
                break
            time.sleep(_POLL_SECONDS)
        if (reason := component.get("FailureReason")) and not failed:
            raise ResourceError(reason)
