"""Build a template of the deployed resources, as if a stack had created them.

It is compared with the template of the environment file.
"""

import re
from collections.abc import Mapping
from typing import Any

from infra.catalog.instances import load_instances
from infra.policy.container import (
    DEFAULT_MODEL_NAME,
    IMAGE_DEFAULTS,
    build_variables,
    explain_inert_variable,
    find_setting,
)
from infra.policy.derived_settings import DEFAULT_COOLDOWN_SECONDS
from servable.init.adoption.expressed_model import HASH, is_secret
from servable.init.adoption.live_fields import HIDDEN
from servable.init.adoption.live_snapshot import (
    Described,
    LiveSnapshot,
    find_container,
    find_data_uri,
    find_image_version,
    infer_detailed_default,
    is_capturing,
    iterate_variants,
)

MODEL, CONFIG = "AWS::SageMaker::Model", "AWS::SageMaker::EndpointConfig"
ENDPOINT = "AWS::SageMaker::Endpoint"
TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
COMPARED = (MODEL, CONFIG, ENDPOINT, TARGET, POLICY)
# Properties of CloudFormation's types that Describe calls return; the others are identities and times.
_PROPERTIES: Mapping[str, tuple[str, ...]] = {
    MODEL: ("PrimaryContainer", "Containers", "ExecutionRoleArn", "VpcConfig",
            "EnableNetworkIsolation", "InferenceExecutionConfig"),
    CONFIG: ("ProductionVariants", "ShadowProductionVariants", "KmsKeyId", "DataCaptureConfig",
             "AsyncInferenceConfig", "MetricsConfig", "ExplainerConfig", "ExecutionRoleArn",
             "VpcConfig", "EnableNetworkIsolation"),
    TARGET: ("MinCapacity", "MaxCapacity", "RoleARN", "ScalableDimension", "ServiceNamespace"),
    POLICY: ("PolicyType", "TargetTrackingScalingPolicyConfiguration",
             "StepScalingPolicyConfiguration"),
}  # fmt: skip
_PRODUCTION, _SHADOW = "ProductionVariants", "ShadowProductionVariants"
_IMAGE_DEFAULTS = build_variables(IMAGE_DEFAULTS, default_model=None)
_NUMBER_OF_VCPUS = ("batching.batch_threads", "batching.max_enqueued_batches")


def build_live_template(snapshot: LiveSnapshot, after: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template of the deployed resources under the logical IDs of `after`.

    `after` is the template of the environment file. Names that CloudFormation generates are those
    of `after`; other resources that it creates are left out.
    """
    return {"Resources": _LiveResources(snapshot, after["Resources"]).resources}


class _LiveResources:
    """The deployed resources, as far as `wanted`, the file's resources, show their logical IDs."""

    def __init__(self, snapshot: LiveSnapshot, wanted: Mapping[str, Any]) -> None:
        self._snapshot, self._wanted = snapshot, wanted
        self._targets, self._policies = [*snapshot.targets], [*snapshot.policies]
        """Those without a counterpart in the template; deploying it removes them."""
        self.resources: dict[str, Any] = {}
        for logical_id, resource in wanted.items():
            kind, properties = resource["Type"], resource.get("Properties", {})
            if kind == CONFIG:
                self._add(logical_id, CONFIG, self._convert_config(properties))
            elif kind == ENDPOINT:
                self._add(logical_id, ENDPOINT, self._convert_endpoint(properties))
            elif kind == TARGET:
                self._add_target(logical_id, properties)
            elif kind == POLICY:
                self._add_policy(logical_id, properties)
        for target in self._targets:
            self._add(target["ResourceId"], TARGET, _select_properties(TARGET, target))
        for policy in self._policies:
            self._add(policy["PolicyName"], POLICY, _select_properties(POLICY, policy))

    def _add(self, logical_id: str, kind: str, properties: Mapping[str, Any]) -> None:
        self.resources[logical_id] = {"Type": kind, "Properties": properties}

    def _convert_config(self, wanted: Described) -> dict[str, Any]:
        """Return the deployed configuration, and add its models."""
        properties = _select_properties(CONFIG, self._snapshot.config)
        stated = {variant["VariantName"]: variant for variant, _ in iterate_variants(wanted)}
        for variant in (*properties.get(_PRODUCTION, []), *properties.get(_SHADOW, [])):
            other = stated.get(variant["VariantName"], {})
            pools = {pool["InstanceType"]: pool for pool in other.get("InstancePools", [])}
            self._add_model("ModelName", variant, other)
            for pool in variant.get("InstancePools", []):
                self._add_model("ModelNameOverride", pool, pools.get(pool["InstanceType"], {}))
        return properties

    def _add_model(self, field: str, live: dict[str, Any], stated: Described) -> None:
        """Add the model that a field of `live` names under the logical ID that `stated` refers to."""
        name, logical_id = live.get(field), stated.get(field)
        if not name or not logical_id:
            return
        live[field] = logical_id
        if isinstance(logical_id, Mapping):
            logical_id = logical_id.get("Fn::GetAtt", [logical_id.get("Ref")])[0]
        described = self._snapshot.models.get(name)
        if described is None or logical_id not in self._wanted:
            return
        properties = _select_properties(MODEL, described)
        properties.pop("Containers", None)
        container = {**find_container(described)}
        container.pop("ContainerHostname", None)
        if container.get("Mode") == "SingleModel":
            del container["Mode"]
        uri = str(find_data_uri(container))
        if uri.endswith(".tar.gz"):  # the same archive, whichever field names it
            container.pop("ModelDataSource", None)
            container["ModelDataUrl"] = uri
        packaged = self._snapshot.find_package_container(container)
        variables = {**packaged.get("Environment", {}), **container.pop("Environment", {})}
        shown = {
            key: HIDDEN if is_secret(key, value) else value for key, value in variables.items()
        }
        properties["PrimaryContainer"] = _remove_empty(container) | {"Environment": shown}
        self._add(logical_id, MODEL, properties)

    def _convert_endpoint(self, wanted: Described) -> dict[str, Any]:
        live = {key: wanted[key] for key in ("EndpointConfigName", "Tags") if key in wanted}
        endpoint = self._snapshot.endpoint
        if endpoint:
            live["EndpointName"] = endpoint["EndpointName"]
        if deployment := endpoint.get("LastDeploymentConfig"):
            live["DeploymentConfig"] = deployment
        return live

    def _add_target(self, logical_id: str, wanted: Described) -> None:
        """Add the deployed target of the variant that a target of the template scales, if any."""
        variant = _find_variant(wanted)
        live = next((each for each in self._targets if _find_variant(each) == variant), None)
        if live is None:
            return
        self._targets.remove(live)
        properties = _select_properties(TARGET, live) | {"ResourceId": wanted["ResourceId"]}
        role = wanted["RoleARN"]
        role_arn = role if isinstance(role, str) else str(role["Fn::Join"][1][-1])
        if str(live.get("RoleARN", "")).rpartition("/")[2] == role_arn.rpartition("/")[2]:
            properties["RoleARN"] = role
        actions = [each for each in self._snapshot.scheduled if _find_variant(each) == variant]
        if actions:
            properties["ScheduledActions"] = [
                {
                    "ScalableTargetAction": each.get("ScalableTargetAction", {}),
                    "Schedule": each["Schedule"],
                    "ScheduledActionName": f"Scheduled{number}",
                    "Timezone": each.get("Timezone", "UTC"),
                    **{key: str(each[key]) for key in ("StartTime", "EndTime") if key in each},
                }
                for number, each in enumerate(actions)
            ]
        self._add(logical_id, TARGET, properties)

    def _add_policy(self, logical_id: str, wanted: Described) -> None:
        """Add the deployed policy of the same variant and kind as one of the template, if any."""
        target = self._wanted[wanted["ScalingTargetId"]["Ref"]]["Properties"]
        meant = _find_variant(target), _find_policy_key(wanted)
        for policy in self._policies:
            if (_find_variant(policy), _find_policy_key(policy)) == meant:
                identity = {key: wanted[key] for key in ("PolicyName", "ScalingTargetId")}
                self._add(logical_id, POLICY, _select_properties(POLICY, policy) | identity)
                self._policies.remove(policy)
                return


def _select_properties(kind: str, described: Described) -> dict[str, Any]:
    kept = {key: described[key] for key in _PROPERTIES[kind] if key in described}
    slim: dict[str, Any] = _remove_empty(kept)
    return slim


def _remove_empty(value: Any) -> Any:
    if isinstance(value, dict):
        slim = {key: _remove_empty(inner) for key, inner in value.items()}
        # An omitted property means the same as False or an empty list, but not as 0.
        return {key: inner for key, inner in slim.items() if inner or type(inner) in (int, float)}
    if isinstance(value, float) and value.is_integer():
        return int(value)  # as the template has it
    return [_remove_empty(item) for item in value] if isinstance(value, list) else value


def _find_variant(described: Described) -> str:
    """Return the variant in a ResourceId, which may be a Fn::Join."""
    resource_id = described["ResourceId"]
    if isinstance(resource_id, Mapping):
        resource_id = "".join(part for part in resource_id["Fn::Join"][1] if isinstance(part, str))
    return str(resource_id).rpartition("/")[2]


def _find_policy_key(policy: Described) -> tuple[str, str]:
    """Return what distinguishes a variant's policies: type, and metric or step direction."""
    tracked = policy.get("TargetTrackingScalingPolicyConfiguration", {})
    metric = tracked.get("PredefinedMetricSpecification", {}).get("PredefinedMetricType")
    custom = tracked.get("CustomizedMetricSpecification", {}).get("MetricName")
    steps = policy.get("StepScalingPolicyConfiguration", {}).get("StepAdjustments") or [{}]
    out = float(steps[0].get("ScalingAdjustment", 0)) > 0
    return policy["PolicyType"], metric or custom or ("out" if out else "in")


def explain_harmless_change(
    what: str, before: str | None, after: str | None, snapshot: LiveSnapshot
) -> str | None:
    """Return why a change of a property doesn't affect callers, or None if it may.

    `what`: path of the property, and in brackets the key of a container variable. `before` or
    `after` None: the property isn't there.
    """
    what = what.partition(" (container.")[0]
    name = what.rpartition(".")[2]
    if what.startswith("PrimaryContainer.Environment."):
        return _explain_harmless_variable(name, before, after, snapshot)
    added, running = before is None, [each for each, _ in iterate_variants(snapshot.endpoint)]
    counts = [str(each.get("DesiredInstanceCount")) for each in running]
    weights = [float(each.get("DesiredWeight", 1)) for each in running]
    metrics = {"MetricsConfig.MetricPublishFrequencyInSeconds": "60",
               "MetricsConfig.EnableEnhancedMetrics": "false",
               "MetricsConfig.EnableDetailedObservability":
                   str(infer_detailed_default(snapshot.config)).lower()}  # fmt: skip
    cooldown_or_zone = str(DEFAULT_COOLDOWN_SECONDS) if name.endswith("Cooldown") else "UTC"
    retained = ("RetainAllVariantProperties", "ExcludeRetainedVariantProperties")
    versions = [str(arn).partition(":sagemaker:")[2] for arn in (before, after)]
    new = what == "EndpointName" or (
        what.endswith(".Dimensions[EndpointName].Value")
        and before == snapshot.endpoint.get("EndpointName")
    )
    reasons = {
        "SageMaker's default routing, now explicit":
            added and name == "RoutingStrategy" and after == "RANDOM",
        "Application Auto Scaling's default, now explicit":
            added and name.endswith(("Cooldown", "Timezone")) and after == cooldown_or_zone,
        "applies only to updates; the current number of instances stays":
            added and what.startswith(retained),
        "SageMaker's default, now explicit":
            added and what in metrics and after == metrics[what],
        "data is captured unless EnableCapture is false":
            added and what == "DataCaptureConfig.EnableCapture" and after == "true",
        "InputAndOutput equals Input and Output":
            what == "DataCaptureConfig.CaptureOptions"
            and _parse_capture_modes(before) == _parse_capture_modes(after),
        "a new endpoint next to the live one": new,
        "the same version of the model package":
            name == "ModelPackageName" and versions[0] == versions[1],
        "EnableCapture is false: nothing was captured":
            what.startswith("DataCaptureConfig.") and after is None
            and not is_capturing(snapshot.config),
        "the number of running instances": name == "InitialInstanceCount" and after in counts,
        "the current weight":
            name == "InitialVariantWeight"
            and after in [text for each in weights for text in (str(each), f"{each:g}")],
    }  # fmt: skip
    return next((reason for reason, holds in reasons.items() if holds), None)


def _parse_capture_modes(options: str | None) -> set[str]:
    modes = {*re.findall(r'"CaptureMode": "(\w+)"', options or "")}
    return {"Input", "Output"} if "InputAndOutput" in modes else modes


def _explain_harmless_variable(
    name: str, before: str | None, after: str | None, snapshot: LiveSnapshot
) -> str | None:
    """Return why a change of a container variable doesn't affect callers, or None if it may."""
    if before is None:
        instances = [load_instances().get(variant.get("InstanceType", ""))
                     for variant, _ in iterate_variants(snapshot.config)]  # fmt: skip
        if name == HASH:
            return "names the archive's hash for CloudFormation; no program reads it"
        if name == DEFAULT_MODEL_NAME:
            return "names the model that the container finds in the archive"
        if _IMAGE_DEFAULTS.get(name) == after:
            return "the image's default, now explicit"
        vcpus = [str(instance.vcpus) for instance in instances if instance is not None]
        if find_setting(name) in _NUMBER_OF_VCPUS and after in vcpus:
            return "the image's default, now explicit: the number of vCPUs"
    elif after is None:
        version = find_image_version([find_container(model) for model in snapshot.models.values()])
        if inert := explain_inert_variable(name, before, tensorflow=version):
            return f"the image doesn't use it: {inert}"
    return None
