"""Compare the endpoint: status, configuration, weights, instance counts, and models."""

from collections.abc import Iterator, Mapping
from typing import Any

from servable.plan.live import has_components
from servable.project.account import fetch_or_none
from servable.verify.deployed import DeployedStack, Resource
from servable.verify.difference import (
    RESTORE,
    Difference,
    build_missing_difference,
    find_changes,
    report_added_keys,
)

TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
KINDS = ("ProductionVariants", "ShadowProductionVariants")
COMPONENTS = "inference components"

# Properties that change an endpoint or model, although the template omits them.
_CONFIG_EXTRAS = (
    "DataCaptureConfig",
    "ShadowProductionVariants",
    "AsyncInferenceConfig",
    "KmsKeyId",
)
_MODEL_EXTRAS = ("VpcConfig", "EnableNetworkIsolation", "Containers", "InferenceExecutionConfig")


def compare_endpoints(stack: DeployedStack) -> Iterator[Difference]:
    sagemaker = stack.account.client("sagemaker")
    for resource in stack.find_resources("AWS::SageMaker::Endpoint"):
        name = resource.properties["EndpointName"]
        live = fetch_or_none(sagemaker.describe_endpoint, EndpointName=name)
        if live is None:
            yield build_missing_difference("endpoint", name)
            continue
        if (status := live["EndpointStatus"]) != "InService":
            why = live.get("FailureReason", "describe_endpoint gives no reason")
            remedy = f"the reason: {why}" if status == "Failed" else "wait, then verify again"
            yield Difference("endpoint status", name, remedy, wanted="InService", found=status)
        differences = list(_compare_config(stack, resource, live))
        yield from differences
        if not any(difference.kind == COMPONENTS for difference in differences):
            yield from _compare_fleet(stack, live)


def _compare_config(
    stack: DeployedStack, resource: Resource, live: Mapping[str, Any]
) -> Iterator[Difference]:
    """Compare the endpoint's configuration, data capture, models, and components.

    After a rollback, the old configuration is live although the endpoint is InService.
    """
    name, wanted = live["EndpointName"], resource.properties["EndpointConfigName"]
    why = live.get("FailureReason") or "AWS gives no reason; check the alarm topic's events"
    remedy = f"the live resources differ from the deployed ones; {why}; fix that, and {RESTORE}"
    yield from find_changes("silent rollback", name, {"EndpointConfigName": wanted}, live, remedy)
    guardrails = resource.properties.get("DeploymentConfig", {})
    last = live.get("LastDeploymentConfig") or guardrails
    remedy = f"the endpoint was updated without them; {RESTORE}"
    yield from find_changes("deployment guardrails", name, guardrails, last, remedy)
    sagemaker = stack.account.client("sagemaker")
    config = fetch_or_none(
        sagemaker.describe_endpoint_config, EndpointConfigName=live["EndpointConfigName"]
    )
    if config is None:
        yield build_missing_difference("endpoint configuration", live["EndpointConfigName"])
        return
    (meant,) = stack.find_resources("AWS::SageMaker::EndpointConfig")
    if has_components(config) and not has_components(meant.properties):
        yield Difference(
            COMPONENTS,
            name,
            "this stack didn't create these and doesn't compare them; list them with `aws sagemaker "
            f"list-inference-components --endpoint-name-equals {name}`",
            wanted="variants with models",
            found="variants without models, for inference components",
        )
        return
    remedy = f"{RESTORE}; CloudTrail shows who changed it (UpdateEndpoint)"
    kind = "endpoint configuration"
    # Models are compared by their content, below, and not by their names.
    sides = _remove_names(meant.properties), _remove_names(config)
    yield from find_changes(kind, name, *sides, remedy)
    yield from _find_extras(kind, name, meant.properties, config, _CONFIG_EXTRAS)
    capture, capturing = (
        {"EnableCapture": bool(side.get("DataCaptureConfig", {}).get("EnableCapture"))}
        for side in (meant.properties, live)
    )
    yield from find_changes("data capture", name, capture, capturing, RESTORE)
    yield from _compare_models(stack, meant.properties, config)
    yield from _compare_components(stack)


def _compare_components(stack: DeployedStack) -> Iterator[Difference]:
    """Compare what each component's copies run and reserve. The number of running copies isn't compared."""
    sagemaker = stack.account.client("sagemaker")
    for resource in stack.find_resources("AWS::SageMaker::InferenceComponent"):
        name, wanted = resource.properties["InferenceComponentName"], resource.properties
        live = fetch_or_none(sagemaker.describe_inference_component, InferenceComponentName=name)
        if live is None:
            yield build_missing_difference("inference component", name)
            continue
        if live["InferenceComponentStatus"] == "Failed":
            remedy = f"the reason: {live.get('FailureReason', 'none is stated')}"
            sides = {"wanted": "InService", "found": "Failed"}
            yield Difference("inference component", name, remedy, **sides)
        specification = {"Specification": wanted["Specification"]}
        remedy = f"it was updated outside CloudFormation; {RESTORE}"
        yield from find_changes("inference component", name, specification, live, remedy)
        models = {each.name: each for each in stack.find_resources("AWS::SageMaker::Model")}
        running = fetch_or_none(
            sagemaker.describe_model, ModelName=live["Specification"]["ModelName"]
        )
        if (meant := models.get(wanted["Specification"]["ModelName"])) and running:
            yield from compare_model(meant.name, meant.properties, running)


def _remove_names(config: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        key: value for key, value in config.items() if key not in ("EndpointConfigName", "Tags")
    }
    for kind in KINDS:
        if kind in config:
            kept[kind] = [
                {key: value for key, value in variant.items() if key != "ModelName"}
                | {
                    "InstancePools": [
                        {key: value for key, value in pool.items() if key != "ModelNameOverride"}
                        for pool in variant.get("InstancePools", [])
                    ]
                }
                for variant in config[kind]
            ]
    return kept


def _list_variants(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [variant for kind in KINDS for variant in config.get(kind) or []]


def _find_extras(
    kind: str,
    name: str,
    wanted: Mapping[str, Any],
    actual: Mapping[str, Any],
    keys: tuple[str, ...],
) -> Iterator[Difference]:
    more = [key for key in keys if actual.get(key) and key not in wanted]
    yield from report_added_keys(kind, name, actual, more, f"{RESTORE}, or add it to the file")


def _compare_models(
    stack: DeployedStack, meant: Mapping[str, Any], config: Mapping[str, Any]
) -> Iterator[Difference]:
    sagemaker = stack.account.client("sagemaker")
    live = {
        key: name for variant in _list_variants(config) for key, name in _iterate_models(variant)
    }
    models = {resource.name: resource for resource in stack.find_resources("AWS::SageMaker::Model")}
    for key, deployed_name in (
        pair for variant in _list_variants(meant) for pair in _iterate_models(variant)
    ):
        name, wanted = live.get(key), models.get(deployed_name)
        if name is None or wanted is None:
            continue  # the difference of the configuration reports the missing variant
        actual = fetch_or_none(sagemaker.describe_model, ModelName=name)
        if actual is None:
            yield build_missing_difference("model", name)
            continue
        yield from compare_model(name, wanted.properties, actual)


def compare_batch_models(stack: DeployedStack) -> Iterator[Difference]:
    """Compare the models that no endpoint uses: those of batches."""
    served = {
        name
        for config in stack.find_resources("AWS::SageMaker::EndpointConfig")
        for variant in _list_variants(config.properties)
        for _, name in _iterate_models(variant)
    }
    served |= {
        component.properties["Specification"].get("ModelName")
        for component in stack.find_resources("AWS::SageMaker::InferenceComponent")
    }
    for resource in stack.find_resources("AWS::SageMaker::Model"):
        if resource.name not in served:
            describe = stack.account.client("sagemaker").describe_model
            actual = fetch_or_none(describe, ModelName=resource.name)
            if actual is None:
                yield build_missing_difference("model", resource.name)
            else:
                yield from compare_model(resource.name, resource.properties, actual)


def _iterate_models(variant: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield ((variant, instance type), model) for each instance type of a variant.

    The instance type is "" if the variant has no instance pools.
    """
    pools = variant.get("InstancePools") or [{}]
    for pool in pools:
        name = pool.get("ModelNameOverride") or variant.get("ModelName")
        if name is not None:  # inference components bring their own models
            yield (variant["VariantName"], pool.get("InstanceType", "")), name


def compare_model(
    name: str, wanted: Mapping[str, Any], actual: Mapping[str, Any]
) -> Iterator[Difference]:
    """Compare the image, archive, role, and every environment variable of a model."""
    remedy = f"the endpoint runs a different model; {RESTORE}"
    yield from find_changes("model", name, wanted, actual, remedy)
    yield from _find_extras("model", name, wanted, actual, _MODEL_EXTRAS)
    expected, there = (
        properties.get("PrimaryContainer", {}).get("Environment", {})
        for properties in (wanted, actual)
    )
    more = {
        f"PrimaryContainer.Environment.{key}": there[key] for key in there if key not in expected
    }
    yield from report_added_keys("model", name, more, more, remedy)


def describe_fleets(stack: DeployedStack) -> Iterator[str]:
    """Yield a sentence with the instances of each type, for each variant with instance pools."""
    sagemaker = stack.account.client("sagemaker")
    for resource in stack.find_resources("AWS::SageMaker::Endpoint"):
        live = fetch_or_none(
            sagemaker.describe_endpoint, EndpointName=resource.properties["EndpointName"]
        )
        for variant in _list_variants(live or {}):
            pools = {
                pool["InstanceType"]: int(pool["CurrentInstanceCount"])
                for pool in variant.get("InstancePools") or []
            }
            if pools:
                yield f"{variant['VariantName']} runs on {_describe_counts(stack, variant, pools)}"


def _describe_counts(
    stack: DeployedStack, variant: Mapping[str, Any], pools: Mapping[str, int]
) -> str:
    (config,) = stack.find_resources("AWS::SageMaker::EndpointConfig")
    preferred = [
        settings["InstancePools"][0]["InstanceType"]
        for settings in _list_variants(config.properties)
        if settings["VariantName"] == variant["VariantName"] and settings.get("InstancePools")
    ]
    # What the file prefers comes first, whatever order AWS answers in.
    order = sorted(pools, key=lambda kind: kind not in preferred)
    shown = ", ".join(f"{pools[kind]} x {kind}" for kind in order)
    elsewhere = sum(count for kind, count in pools.items() if kind not in preferred)
    if not preferred or not elsewhere:
        return shown
    return (
        f"{shown}: AWS had too few {preferred[0]} when {elsewhere} of them started; they stay until "
        "scaling removes them, these first, or an update replaces the fleet"
    )


def _compare_fleet(stack: DeployedStack, live: Mapping[str, Any]) -> Iterator[Difference]:
    """Compare weights and instance counts. `live`: the response of DescribeEndpoint."""
    scaled = {
        resource.properties["ResourceId"].split("/")[-1]: resource.properties
        for resource in stack.find_resources(TARGET)
    }
    (config,) = stack.find_resources("AWS::SageMaker::EndpointConfig")
    there = {settings["VariantName"]: settings for settings in _list_variants(live)}
    for settings in _list_variants(config.properties):
        variant = settings["VariantName"]
        if variant not in there:
            continue  # the difference of the configuration reports it
        name = f"{live['EndpointName']}/{variant}"
        weight = {"CurrentWeight": settings["InitialVariantWeight"]}
        remedy = _format_reset_command(
            stack, live, variant, "Weight", settings["InitialVariantWeight"]
        )
        yield from find_changes("drifted weight", name, weight, there[variant], remedy)
        target = scaled.get(variant)
        if (managed := settings.get("ManagedInstanceScaling")) is not None:
            bounds = (("MinCapacity", "MinInstanceCount"), ("MaxCapacity", "MaxInstanceCount"))
            target = {key: managed[bound] for key, bound in bounds}
        back = _format_reset_command(
            stack, live, variant, "InstanceCount", settings.get("InitialInstanceCount")
        )
        yield from _compare_count(name, settings, there[variant], target, back)


def _format_reset_command(
    stack: DeployedStack, live: Mapping[str, Any], variant: str, what: str, value: object
) -> str:
    """Return the command that sets a variant's weight or number of instances."""
    return (
        "set it back: `aws sagemaker update-endpoint-weights-and-capacities "
        f"--endpoint-name {live['EndpointName']} --region {stack.account.region} "
        f"--desired-weights-and-capacities VariantName={variant},Desired{what}={value}`"
    )


def _compare_count(
    name: str,
    wanted: Mapping[str, Any],
    now: Mapping[str, Any],
    target: Mapping[str, Any] | None,
    back: str,
) -> Iterator[Difference]:
    """Compare the number of instances; for serverless, of provisioned concurrency.

    `back`: how to set the number of instances back where nothing scales.
    """
    key = "CurrentInstanceCount"
    started, count = wanted.get("InitialInstanceCount"), now.get(key)
    if "ServerlessConfig" in wanted:
        key = "ProvisionedConcurrency"
        started = wanted["ServerlessConfig"].get(key)
        count = (now.get("CurrentServerlessConfig") or {}).get(key)
        if started is None and count is None:
            return  # without provisioned concurrency
    least = most = int(started or 0)
    if target is not None:
        bounds = [target, *list_scheduled_bounds(target)]
        least = min(int(bound["MinCapacity"]) for bound in bounds if "MinCapacity" in bound)
        most = max(int(bound["MaxCapacity"]) for bound in bounds if "MaxCapacity" in bound)
    if count is None or not least <= count <= most:
        remedy = back if key == "CurrentInstanceCount" else RESTORE
        if target is not None:
            remedy = "scaling hasn't restored it; check the scaling activities"
        bounds_text = least if least == most else f"{least} to {most}"
        yield Difference("drifted count", name, remedy, key, bounds_text, count)


def list_scheduled_bounds(target: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the bounds that the scheduled actions of a scaling target set."""
    actions = target.get("ScheduledActions") or []
    return [action.get("ScalableTargetAction", {}) for action in actions]
