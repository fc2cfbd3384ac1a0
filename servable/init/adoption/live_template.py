"""Build a template of the deployed resources, as if a stack had created them.

It is compared with the template of the environment file.
"""

import copy
import re
from collections.abc import Mapping, Sequence
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
    find_package_container,
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
_IMAGE_DEFAULTS = build_variables(IMAGE_DEFAULTS, default_model=None)
_NUMBER_OF_VCPUS = ("batching.batch_threads", "batching.max_enqueued_batches")


def build_live_template(snapshot: LiveSnapshot, after: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template of the deployed resources under the logical IDs of `after`.

    `after` is the template of the environment file. Names that CloudFormation generates are those
    of `after`; other resources that it creates are left out.
    """
    resources = after["Resources"]
    before: dict[str, Any] = {}
    for logical_id, resource in resources.items():
        if resource["Type"] == CONFIG:
            config = _convert_config(snapshot, before, resources, resource["Properties"])
            before[logical_id] = {"Type": CONFIG, "Properties": config}
    for logical_id, resource in resources.items():
        kind, wanted = resource["Type"], resource.get("Properties", {})
        live: dict[str, Any] | None = None
        if kind == ENDPOINT:
            live = {key: wanted[key] for key in ("EndpointConfigName", "Tags") if key in wanted}
            if snapshot.endpoint:
                live["EndpointName"] = snapshot.endpoint["EndpointName"]
            if deployment := snapshot.endpoint.get("LastDeploymentConfig"):
                live["DeploymentConfig"] = deployment
        elif kind == TARGET:
            live = _find_target(snapshot, wanted)
        elif kind == POLICY:
            target = resources[wanted["ScalingTargetId"]["Ref"]]["Properties"]
            live = _find_policy(snapshot, _find_variant(target["ResourceId"]), wanted)
        if live is not None:
            before[logical_id] = {"Type": kind, "Properties": live}
    _add_unmatched(snapshot, before)
    return {"Resources": before}


def _convert_config(
    snapshot: LiveSnapshot,
    before: dict[str, Any],
    resources: Mapping[str, Any],
    wanted: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the deployed configuration, and add its models to `before`."""
    properties = _select_properties(CONFIG, snapshot.config)
    for key in ("ProductionVariants", "ShadowProductionVariants"):
        meant = {variant["VariantName"]: variant for variant in wanted.get(key) or []}
        for variant in properties.get(key, []):
            other = meant.get(variant["VariantName"], {})
            pools = {pool["InstanceType"]: pool for pool in other.get("InstancePools", [])}
            pairs = [("ModelName", variant, other)]
            for pool in variant.get("InstancePools", []):
                pairs.append(("ModelNameOverride", pool, pools.get(pool["InstanceType"], {})))
            for field, live, stated in pairs:
                if live.get(field) and stated.get(field):
                    _add_model(snapshot, before, resources, live[field], stated[field])
                    live[field] = stated[field]
    return properties


def _select_properties(kind: str, described: Described) -> dict[str, Any]:
    kept = {key: described[key] for key in _PROPERTIES[kind] if key in described}
    slim: dict[str, Any] = _remove_empty(copy.deepcopy(kept))
    return slim


def _remove_empty(value: Any) -> Any:
    if isinstance(value, dict):
        slim = {key: _remove_empty(inner) for key, inner in value.items()}
        # An omitted property means the same as False or an empty list, but not as 0.
        return {key: inner for key, inner in slim.items() if inner or type(inner) in (int, float)}
    if isinstance(value, float) and value.is_integer():
        return int(value)  # as the template has it
    return [_remove_empty(item) for item in value] if isinstance(value, list) else value


def _add_model(
    snapshot: LiveSnapshot,
    before: dict[str, Any],
    resources: Mapping[str, Any],
    name: str,
    reference: Any,
) -> None:
    """Add the deployed model under the logical ID that the template's variant refers to."""
    logical_id = reference
    if isinstance(reference, Mapping):
        logical_id = reference.get("Fn::GetAtt", [reference.get("Ref")])[0]
    if name not in snapshot.models or logical_id not in resources:
        return
    properties = _select_properties(MODEL, snapshot.models[name])
    container = dict(find_container(snapshot.models[name]))
    properties.pop("Containers", None)
    container.pop("ContainerHostname", None)
    if container.get("Mode") == "SingleModel":
        del container["Mode"]
    uri = str(find_data_uri(container))
    if uri.endswith(".tar.gz"):  # the same archive, whichever field names it
        container.pop("ModelDataSource", None)
        container["ModelDataUrl"] = uri
    package = snapshot.packages.get(container.get("ModelPackageName", ""), {})
    variables = {
        **find_package_container(package).get("Environment", {}),
        **container.pop("Environment", {}),
    }
    shown = {key: HIDDEN if is_secret(key, value) else value for key, value in variables.items()}
    properties["PrimaryContainer"] = _remove_empty(container) | {"Environment": shown}
    before[logical_id] = {"Type": MODEL, "Properties": properties}


def _find_variant(resource_id: Any) -> str:
    """Return the variant in a scalable target's ResourceId, which may be a Fn::Join."""
    if isinstance(resource_id, Mapping):
        resource_id = "".join(part for part in resource_id["Fn::Join"][1] if isinstance(part, str))
    return str(resource_id).rpartition("/")[2]


def _select_scaling(described: Sequence[Described], variant: str) -> list[Described]:
    return [each for each in described if _find_variant(each["ResourceId"]) == variant]


def _find_target(snapshot: LiveSnapshot, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the deployed target for a target of the template, or None."""
    variant = _find_variant(wanted["ResourceId"])
    live = _select_scaling(snapshot.targets, variant)
    if not live:
        return None
    properties = _select_properties(TARGET, live[0]) | {"ResourceId": wanted["ResourceId"]}
    properties["MinCapacity"] = live[0]["MinCapacity"]
    role = wanted["RoleARN"]
    role_name = (role if isinstance(role, str) else str(role["Fn::Join"][1][-1])).rpartition("/")[2]
    if str(properties.get("RoleARN", "")).rpartition("/")[2] == role_name:
        properties["RoleARN"] = role
    if actions := _select_scaling(snapshot.scheduled, variant):
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
    return properties


def _find_policy(
    snapshot: LiveSnapshot, variant: str, wanted: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the deployed policy for a policy of the template, or None."""
    for policy in _select_scaling(snapshot.policies, variant):
        if _find_policy_key(policy) == _find_policy_key(wanted):
            identity = {key: wanted[key] for key in ("PolicyName", "ScalingTargetId")}
            return _select_properties(POLICY, policy) | identity
    return None


def _find_policy_key(policy: Mapping[str, Any]) -> tuple[str, str]:
    """Return what distinguishes a variant's policies: type, and metric or step direction."""
    tracked = policy.get("TargetTrackingScalingPolicyConfiguration", {})
    metric = tracked.get("PredefinedMetricSpecification", {}).get("PredefinedMetricType")
    custom = tracked.get("CustomizedMetricSpecification", {}).get("MetricName")
    steps = policy.get("StepScalingPolicyConfiguration", {}).get("StepAdjustments") or [{}]
    out = float(steps[0].get("ScalingAdjustment", 0)) > 0
    return policy["PolicyType"], metric or custom or ("out" if out else "in")


def _add_unmatched(snapshot: LiveSnapshot, before: dict[str, Any]) -> None:
    """Add deployed targets and policies without a counterpart in the template.

    Deploying the template removes them.
    """

    def select(kind: str) -> list[Mapping[str, Any]]:
        return [each["Properties"] for each in before.values() if each["Type"] == kind]

    variants = {_find_variant(target["ResourceId"]) for target in select(TARGET)}
    policies = {_find_policy_key(policy) for policy in select(POLICY)}
    for target in snapshot.targets:
        if _find_variant(target["ResourceId"]) not in variants:
            properties = _select_properties(TARGET, target)
            before[target["ResourceId"]] = {"Type": TARGET, "Properties": properties}
    for policy in snapshot.policies:
        if _find_policy_key(policy) not in policies:
            properties = _select_properties(POLICY, policy)
            before[policy["PolicyName"]] = {"Type": POLICY, "Properties": properties}


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
            added and _is_default_of_metrics(what, after, snapshot),
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


def _is_default_of_metrics(what: str, after: str | None, snapshot: LiveSnapshot) -> bool:
    """Return whether a property of MetricsConfig gets the value that it has if it's omitted."""
    by_day = infer_detailed_default(snapshot.config)
    detailed = None if by_day is None else str(by_day).lower()
    defaults = {
        "MetricsConfig.MetricPublishFrequencyInSeconds": "60",
        "MetricsConfig.EnableEnhancedMetrics": "false",
        "MetricsConfig.EnableDetailedObservability": detailed,
    }
    return after is not None and after == defaults.get(what)
