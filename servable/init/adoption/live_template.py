"""Build a template of the deployed resources, as if a stack had created them.

It is compared with the template of the environment file.
"""

import copy
import re
from collections.abc import Iterator, Mapping
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
from servable.init.adoption.live_picture import (
    Described,
    LivePicture,
    find_container,
    find_data_uri,
    find_image_version,
    find_package_container,
    is_capturing,
    is_detailed_by_default,
    iterate_variants,
)

MODEL, CONFIG = "AWS::SageMaker::Model", "AWS::SageMaker::EndpointConfig"
ENDPOINT = "AWS::SageMaker::Endpoint"
TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
COMPARED = (MODEL, CONFIG, ENDPOINT, TARGET, POLICY)
# Properties of CloudFormation's types that Describe calls answer with; the others are identities and times.
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


def build_live_template(picture: LivePicture, after: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template of the deployed resources under the logical IDs of `after`.

    `after` is the template of the environment file. Names that CloudFormation generates are those
    of `after`; other resources that it creates are left out.
    """
    resources = after["Resources"]
    before: dict[str, Any] = {}
    configs = [item for item in resources.items() if item[1]["Type"] == CONFIG]
    for config_id, config in configs:
        properties = _select_properties(CONFIG, picture.config)
        for key in ("ProductionVariants", "ShadowProductionVariants"):
            wanted = {
                variant["VariantName"]: variant for variant in config["Properties"].get(key) or []
            }
            for variant in properties.get(key, []):
                other = wanted.get(variant["VariantName"], {})
                if "ModelName" in other:
                    _add_model(picture, before, resources, variant["ModelName"], other["ModelName"])
                    variant["ModelName"] = other["ModelName"]
                _add_pool_models(picture, before, resources, variant, other)
        before[config_id] = {"Type": CONFIG, "Properties": properties}
    for logical_id, resource in resources.items():
        properties = resource.get("Properties", {})
        if resource["Type"] == ENDPOINT:
            own = {
                key: properties[key] for key in ("EndpointConfigName", "Tags") if key in properties
            }
            live = {"EndpointName": picture.endpoint["EndpointName"]} if picture.endpoint else {}
            if deployment := picture.endpoint.get("LastDeploymentConfig"):
                live["DeploymentConfig"] = deployment
            before[logical_id] = {"Type": ENDPOINT, "Properties": own | live}
        elif resource["Type"] in (TARGET, POLICY):
            scaled = _find_scaling(picture, resources, resource)
            if scaled is not None:
                before[logical_id] = {"Type": resource["Type"], "Properties": scaled}
    _add_unmatched(picture, before)
    return {"Resources": before}


def _select_properties(kind: str, described: Described) -> dict[str, Any]:
    kept = {key: described[key] for key in _PROPERTIES[kind] if key in described}
    slim: dict[str, Any] = _remove_empty(copy.deepcopy(kept))
    return slim


def _remove_empty(value: Any) -> Any:
    if isinstance(value, dict):
        slim = {key: _remove_empty(inner) for key, inner in value.items()}
        # False, or a list of nothing, is what an omitted property means; 0 is not.
        return {key: inner for key, inner in slim.items() if inner or type(inner) in (int, float)}
    if isinstance(value, float) and value.is_integer():
        return int(value)  # as the template has it
    return [_remove_empty(item) for item in value] if isinstance(value, list) else value


def _add_model(
    picture: LivePicture,
    before: dict[str, Any],
    resources: Mapping[str, Any],
    name: str,
    reference: Any,
) -> None:
    """Add the deployed model under the logical ID that the template's variant refers to."""
    logical_id = _find_logical_id(reference)
    if name not in picture.models or logical_id not in resources:
        return
    properties = _select_properties(MODEL, picture.models[name])
    container = dict(find_container(picture.models[name]))
    properties.pop("Containers", None)
    container.pop("ContainerHostname", None)
    if container.get("Mode") == "SingleModel":
        del container["Mode"]
    address = str(find_data_uri(container))
    if address.endswith(".tar.gz"):  # however it is said, it is the same archive
        container.pop("ModelDataSource", None)
        container["ModelDataUrl"] = address
    packaged = find_package_container(
        picture.packages.get(container.get("ModelPackageName", ""), {})
    )
    variables = {**packaged.get("Environment", {}), **container.pop("Environment", {})}
    properties["PrimaryContainer"] = _remove_empty(container) | {
        "Environment": {
            name: HIDDEN if is_secret(name, value) else value for name, value in variables.items()
        }
    }
    before[logical_id] = {"Type": MODEL, "Properties": properties}


def _add_pool_models(
    picture: LivePicture,
    before: dict[str, Any],
    resources: Mapping[str, Any],
    variant: dict[str, Any],
    other: Mapping[str, Any],
) -> None:
    overrides = {
        pool["InstanceType"]: pool.get("ModelNameOverride")
        for pool in other.get("InstancePools", [])
    }
    for pool in variant.get("InstancePools", []):
        name, reference = pool.get("ModelNameOverride"), overrides.get(pool["InstanceType"])
        if name and reference:
            _add_model(picture, before, resources, name, reference)
            pool["ModelNameOverride"] = reference


def _find_logical_id(reference: Any) -> str:
    if not isinstance(reference, Mapping):
        return str(reference)
    if "Fn::GetAtt" in reference:
        return str(reference["Fn::GetAtt"][0])
    return str(reference.get("Ref", ""))


def _find_variant(resource_id: Any) -> str:
    """Return the variant in a scalable target's ResourceId, which may be a Fn::Join."""
    if isinstance(resource_id, Mapping):
        resource_id = "".join(part for part in resource_id["Fn::Join"][1] if isinstance(part, str))
    return str(resource_id).rpartition("/")[2]


def _find_scaling(
    picture: LivePicture, resources: Mapping[str, Any], resource: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the deployed target or policy for a resource of the template, or None."""
    wanted = resource["Properties"]
    target = (
        wanted
        if resource["Type"] == TARGET
        else resources[wanted["ScalingTargetId"]["Ref"]]["Properties"]
    )
    variant = _find_variant(target["ResourceId"])
    live = [
        each
        for each in (picture.targets if resource["Type"] == TARGET else picture.policies)
        if _find_variant(each["ResourceId"]) == variant
    ]
    if resource["Type"] == TARGET:
        if not live:
            return None
        properties = _select_properties(TARGET, live[0]) | {"ResourceId": wanted["ResourceId"]}
        properties["MinCapacity"] = live[0]["MinCapacity"]
        if str(properties.get("RoleARN", "")).rpartition("/")[2] == _find_role_name(
            wanted["RoleARN"]
        ):
            properties["RoleARN"] = wanted["RoleARN"]
        actions = [
            each for each in picture.scheduled if _find_variant(each["ResourceId"]) == variant
        ]
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
        return properties
    for policy in live:
        if _find_policy_key(policy) == _find_policy_key(wanted):
            identity = {key: wanted[key] for key in ("PolicyName", "ScalingTargetId")}
            return _select_properties(POLICY, policy) | identity
    return None


def _find_role_name(arn: Any) -> str:
    text = arn if isinstance(arn, str) else str(arn["Fn::Join"][1][-1])
    return text.rpartition("/")[2]


def _find_policy_key(policy: Mapping[str, Any]) -> tuple[str, str]:
    """Return what distinguishes a variant's policies: type, and metric or step direction."""
    tracked = policy.get("TargetTrackingScalingPolicyConfiguration", {})
    metric = tracked.get("PredefinedMetricSpecification", {}).get("PredefinedMetricType")
    custom = tracked.get("CustomizedMetricSpecification", {}).get("MetricName")
    steps = policy.get("StepScalingPolicyConfiguration", {}).get("StepAdjustments") or [{}]
    out = float(steps[0].get("ScalingAdjustment", 0)) > 0
    return policy["PolicyType"], metric or custom or ("out" if out else "in")


def _add_unmatched(picture: LivePicture, before: dict[str, Any]) -> None:
    """Add deployed targets and policies without a counterpart in the template.

    Deploying the template removes them.
    """
    kept = [resource["Properties"] for resource in before.values() if resource["Type"] == POLICY]
    targets = [
        _find_variant(resource["Properties"]["ResourceId"])
        for resource in before.values()
        if resource["Type"] == TARGET
    ]
    for target in picture.targets:
        if _find_variant(target["ResourceId"]) not in targets:
            before[target["ResourceId"]] = {
                "Type": TARGET,
                "Properties": _select_properties(TARGET, target),
            }
    for policy in picture.policies:
        if not any(_find_policy_key(policy) == _find_policy_key(other) for other in kept):
            before[policy["PolicyName"]] = {
                "Type": POLICY,
                "Properties": _select_properties(POLICY, policy),
            }


def explain_harmless_change(
    what: str, before: str | None, after: str | None, picture: LivePicture
) -> str | None:
    """Return why a change of a property doesn't affect callers, or None if it may.

    `what`: path of the property, and in brackets the key of a container variable. `before` or
    `after` None: the property isn't there.
    """
    what = what.partition(" (container.")[0]
    name = what.rpartition(".")[2]
    variable = what.startswith("PrimaryContainer.Environment.")
    if before is None:
        if variable and name == HASH:
            return "names the archive's hash for CloudFormation; no program reads it"
        if variable and name == DEFAULT_MODEL_NAME:
            return "names the model that the container finds in the archive"
        if variable and _IMAGE_DEFAULTS.get(name) == after:
            return "the image's own default, written out"
        if (
            variable
            and find_setting(name) in _NUMBER_OF_VCPUS
            and after in [*_iterate_vcpus(picture)]
        ):
            return "the image's own default, written out: the number of vCPUs"
        if name == "RoutingStrategy" and after == "RANDOM":
            return "SageMaker's own routing, written out"
        default = str(DEFAULT_COOLDOWN_SECONDS) if name.endswith("Cooldown") else "UTC"
        if name.endswith(("Cooldown", "Timezone")) and after == default:
            return "Application Auto Scaling's default, written out"
        if what.startswith(("RetainAllVariantProperties", "ExcludeRetainedVariantProperties")):
            return "applies to updates: the live number of instances stays"
        if what in _list_unstated_metrics(picture).get(after, ()):
            return "SageMaker's own default, written out"
        if what == "DataCaptureConfig.EnableCapture" and after == "true":
            return "data is captured unless EnableCapture is false"
    if variable and after is None:
        version = find_image_version([find_container(model) for model in picture.models.values()])
        if inert := explain_inert_variable(name, str(before), tensorflow=version):
            return f"the image does not use it: {inert}"
    if what == "DataCaptureConfig.CaptureOptions" and _parse_capture_modes(
        before
    ) == _parse_capture_modes(after):
        return "InputAndOutput is Input and Output"
    if what.endswith(".Dimensions[EndpointName].Value") and (
        before == picture.endpoint.get("EndpointName")
    ):
        return "a new endpoint next to the live one"
    if name == "ModelPackageName" and _remove_partition(before) == _remove_partition(after):
        return "the same version of the model package"
    if what.startswith("DataCaptureConfig.") and after is None and not is_capturing(picture.config):
        return "EnableCapture is false: nothing was captured"
    if what == "EndpointName":
        return "a new endpoint next to the live one"
    if name == "InitialInstanceCount" and after in _list_counts(picture):
        return "the number of instances that run"
    if name == "InitialVariantWeight" and after in _list_weights(picture):
        return "the weight that is in force"
    return None


def _list_unstated_metrics(picture: LivePicture) -> dict[str | None, tuple[str, ...]]:
    """Return values of MetricsConfig that equal the default -> their properties."""
    detailed = "MetricsConfig.EnableDetailedObservability"
    enhanced, seconds = (
        f"MetricsConfig.{name}"
        for name in ("EnableEnhancedMetrics", "MetricPublishFrequencyInSeconds")
    )
    by_day = is_detailed_by_default(picture.config)
    unstated: dict[str | None, tuple[str, ...]] = {
        "60": (seconds,), "true": (detailed,) if by_day else (),
        "false": (enhanced, detailed) if by_day is False else (enhanced,)}  # fmt: skip
    return unstated


def _parse_capture_modes(options: str | None) -> set[str]:
    modes = {*re.findall(r'"CaptureMode": "(\w+)"', options or "")}
    return {"Input", "Output"} if "InputAndOutput" in modes else modes


def _remove_partition(arn: str | None) -> str:
    return str(arn).partition(":sagemaker:")[2]


def _iterate_vcpus(picture: LivePicture) -> Iterator[str]:
    for variant, _ in iterate_variants(picture.config):
        if (instance := load_instances().get(variant.get("InstanceType", ""))) is not None:
            yield str(instance.vcpus)


def _list_counts(picture: LivePicture) -> list[str]:
    return [str(each.get("DesiredInstanceCount")) for each, _ in iterate_variants(picture.endpoint)]


def _list_weights(picture: LivePicture) -> list[str]:
    weights = [
        float(each.get("DesiredWeight", 1)) for each, _ in iterate_variants(picture.endpoint)
    ]
    return [text for weight in weights for text in (str(weight), f"{weight:g}")]
