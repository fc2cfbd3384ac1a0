"""Compare the endpoint: status, configuration, weights, instance counts, and models."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from servable.plan.live import has_components
from servable.verify.deployed import DeployedStack, Properties, Resource
from servable.verify.difference import RESTORE, Difference, build_missing_difference, find_changes

TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
ENDPOINT, CONFIG = "AWS::SageMaker::Endpoint", "AWS::SageMaker::EndpointConfig"
MODEL, COMPONENT = "AWS::SageMaker::Model", "AWS::SageMaker::InferenceComponent"
KINDS = ("ProductionVariants", "ShadowProductionVariants")
COMPONENTS = "inference components"

# Properties that change an endpoint or model, although the template omits them.
_CONFIG_EXTRAS = ("DataCaptureConfig", KINDS[1], "AsyncInferenceConfig", "KmsKeyId")
_MODEL_EXTRAS = ("VpcConfig", "EnableNetworkIsolation", "Containers", "InferenceExecutionConfig")
# Models are compared by their content, and not by their names.
_NAMES = ("EndpointConfigName", "Tags", "ModelName", "ModelNameOverride")


def compare_endpoints(stack: DeployedStack) -> Iterator[Difference | str]:
    """Compare the endpoint, and yield a note with the instances of each type (`_describe_fleet`)."""
    for resource in stack.find_resources(ENDPOINT):
        name = resource.properties["EndpointName"]
        live = stack.fetch("sagemaker", "describe_endpoint", EndpointName=name)
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
        yield from _describe_fleet(stack, live)


def _compare_config(
    stack: DeployedStack, resource: Resource, live: Properties
) -> Iterator[Difference]:
    """Compare the endpoint's configuration, data capture, models, and components.

    After a rollback, the old configuration is live although the endpoint is InService.
    """
    name, running, key = live["EndpointName"], live["EndpointConfigName"], "EndpointConfigName"
    why = live.get("FailureReason") or "AWS gives no reason; check the alarm topic's events"
    remedy = f"the live resources differ from the deployed ones; {why}; fix that, and {RESTORE}"
    yield from find_changes("silent rollback", name, resource.properties[key], running, remedy, key)
    guardrails = resource.properties.get("DeploymentConfig", {})
    last = live.get("LastDeploymentConfig") or guardrails
    remedy = f"the endpoint was updated without them; {RESTORE}"
    yield from find_changes("deployment guardrails", name, guardrails, last, remedy)
    config = stack.fetch("sagemaker", "describe_endpoint_config", EndpointConfigName=running)
    if config is None:
        yield build_missing_difference("endpoint configuration", running)
        return
    meant = _find_config(stack)
    if has_components(config) and not has_components(meant):
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
    yield from find_changes(kind, name, _remove_names(meant), _remove_names(config), remedy)
    yield from _find_extras(kind, name, meant, config, _CONFIG_EXTRAS)
    capture, capturing = (
        bool(side.get("DataCaptureConfig", {}).get("EnableCapture")) for side in (meant, live)
    )
    yield from find_changes("data capture", name, capture, capturing, RESTORE, "EnableCapture")
    names, models = dict(_iterate_models(config)), _find_models(stack)
    for place, deployed_name in _iterate_models(meant):
        # The difference of the configuration reports a missing variant.
        if place in names and deployed_name in models:
            yield from _compare_model(stack, models[deployed_name], names[place])
    for component in stack.find_resources(COMPONENT):
        yield from _compare_component(stack, component.properties)


def _compare_component(stack: DeployedStack, wanted: Properties) -> Iterator[Difference]:
    """Compare what a component's copies run and reserve. The number of running copies isn't compared."""
    kind, name = "inference component", wanted["InferenceComponentName"]
    specification = wanted["Specification"]
    live = stack.fetch("sagemaker", "describe_inference_component", InferenceComponentName=name)
    if live is None:
        yield build_missing_difference(kind, name)
        return
    if live["InferenceComponentStatus"] == "Failed":
        remedy = f"the reason: {live.get('FailureReason', 'none is stated')}"
        yield Difference(kind, name, remedy, wanted="InService", found="Failed")
    remedy, there = f"it was updated outside CloudFormation; {RESTORE}", live["Specification"]
    yield from find_changes(kind, name, specification, there, remedy, "Specification")
    if meant := _find_models(stack).get(specification["ModelName"]):
        yield from _compare_model(stack, meant, there["ModelName"])


def _find_config(stack: DeployedStack) -> Properties:
    """Return the properties of the stack's endpoint configuration."""
    (config,) = stack.find_resources(CONFIG)
    return config.properties


def _find_models(stack: DeployedStack) -> dict[str, Resource]:
    """Return the stack's models by their names."""
    return {resource.name: resource for resource in stack.find_resources(MODEL)}


def _remove_names(value: Any) -> Any:
    """Return a part of a configuration without `_NAMES`, and with the pools that AWS omits."""
    if isinstance(value, list):
        return [_remove_names(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    pools: dict[str, Any] = {"InstancePools": []} if "VariantName" in value else {}
    return pools | {key: _remove_names(each) for key, each in value.items() if key not in _NAMES}


def _list_variants(config: Properties) -> list[Properties]:
    return [variant for kind in KINDS for variant in config.get(kind) or []]


def _find_extras(
    kind: str, name: str, wanted: Properties, actual: Properties, keys: Sequence[str]
) -> Iterator[Difference]:
    remedy = f"{RESTORE}, or add it to the file"
    for key in keys:
        if actual.get(key) and key not in wanted:
            yield Difference(kind, name, remedy, key, found=actual[key])


def compare_batch_models(stack: DeployedStack) -> Iterator[Difference]:
    """Compare the models that no endpoint uses: those of batches."""
    configs = stack.find_resources(CONFIG)
    served = {name for config in configs for _, name in _iterate_models(config.properties)}
    components = stack.find_resources(COMPONENT)
    served |= {each.properties["Specification"].get("ModelName") for each in components}
    for name, model in _find_models(stack).items():
        if name not in served:
            yield from _compare_model(stack, model, name)


def _iterate_models(config: Properties) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield ((variant, instance type), model) for each instance type of each variant.

    The instance type is "" if the variant has no instance pools.
    """
    for variant in _list_variants(config):
        for pool in variant.get("InstancePools") or [{}]:
            name = pool.get("ModelNameOverride") or variant.get("ModelName")
            if name is not None:  # inference components bring their own models
                yield (variant["VariantName"], pool.get("InstanceType", "")), name


def _compare_model(stack: DeployedStack, resource: Resource, name: str) -> Iterator[Difference]:
    """Compare the image, archive, role, and every environment variable of the model `name`."""
    wanted = resource.properties
    actual = stack.fetch("sagemaker", "describe_model", ModelName=name)
    if actual is None:
        yield build_missing_difference("model", name)
        return
    remedy = f"the endpoint runs a different model; {RESTORE}"
    yield from find_changes("model", name, wanted, actual, remedy)
    yield from _find_extras("model", name, wanted, actual, _MODEL_EXTRAS)
    expected, there = (
        side.get("PrimaryContainer", {}).get("Environment", {}) for side in (wanted, actual)
    )
    for key in there:
        if key not in expected:
            where = f"PrimaryContainer.Environment.{key}"
            yield Difference("model", name, remedy, where, found=there[key])


def _describe_fleet(stack: DeployedStack, live: Properties) -> Iterator[str]:
    """Yield a sentence with the instances of each type, for each variant with instance pools."""
    preferred = {
        variant["VariantName"]: variant["InstancePools"][0]["InstanceType"]
        for variant in _list_variants(_find_config(stack))
        if variant.get("InstancePools")
    }
    for variant in _list_variants(live):
        name, pools = variant["VariantName"], variant.get("InstancePools") or []
        counts = {pool["InstanceType"]: int(pool["CurrentInstanceCount"]) for pool in pools}
        if not counts:
            continue
        # What the file prefers comes first, whatever order AWS answers in.
        first = preferred.get(name)
        order = sorted(counts, key=lambda kind: kind != first)
        shown = f"{name} runs on " + ", ".join(f"{counts[kind]} x {kind}" for kind in order)
        if first is not None and (elsewhere := sum(counts.values()) - counts.get(first, 0)):
            shown += (
                f": AWS had too few {first} when {elsewhere} of them started; they stay until "
                "scaling removes them, these first, or an update replaces the fleet"
            )
        yield shown


def _compare_fleet(stack: DeployedStack, live: Properties) -> Iterator[Difference]:
    """Compare weights and instance counts. `live`: the response of DescribeEndpoint."""
    targets = (resource.properties for resource in stack.find_resources(TARGET))
    scaled = {target["ResourceId"].split("/")[-1]: target for target in targets}
    there = {settings["VariantName"]: settings for settings in _list_variants(live)}
    for settings in _list_variants(_find_config(stack)):
        variant = settings["VariantName"]
        if variant not in there:
            continue  # the difference of the configuration reports it
        name, now = f"{live['EndpointName']}/{variant}", there[variant]
        set_back = (
            "set it back: `aws sagemaker update-endpoint-weights-and-capacities "
            f"--endpoint-name {live['EndpointName']} --region {stack.account.region} "
            f"--desired-weights-and-capacities VariantName={variant},Desired"
        )
        weight, key = settings["InitialVariantWeight"], "CurrentWeight"
        remedy = f"{set_back}Weight={weight}`"
        yield from find_changes("drifted weight", name, weight, now.get(key), remedy, key)
        target = scaled.get(variant)
        if (managed := settings.get("ManagedInstanceScaling")) is not None:
            bounds = (("MinCapacity", "MinInstanceCount"), ("MaxCapacity", "MaxInstanceCount"))
            target = {key: managed[bound] for key, bound in bounds}
        remedy = f"{set_back}InstanceCount={settings.get('InitialInstanceCount')}`"
        yield from _compare_count(name, settings, now, target, remedy)


def _compare_count(
    name: str, wanted: Properties, now: Properties, target: Properties | None, back: str
) -> Iterator[Difference]:
    """Compare the number of instances; for serverless, of provisioned concurrency.

    `back`: how to set the number of instances back where nothing scales.
    """
    key, remedy = "CurrentInstanceCount", back
    started, count = wanted.get("InitialInstanceCount"), now.get(key)
    if "ServerlessConfig" in wanted:
        key, remedy = "ProvisionedConcurrency", RESTORE
        started = wanted["ServerlessConfig"].get(key)
        count = (now.get("CurrentServerlessConfig") or {}).get(key)
        if started is None and count is None:
            return  # without provisioned concurrency
    least = most = int(started or 0)
    if target is not None:
        remedy = "scaling hasn't restored it; check the scaling activities"
        bounds = [target, *list_scheduled_bounds(target)]
        least = min(int(bound["MinCapacity"]) for bound in bounds if "MinCapacity" in bound)
        most = max(int(bound["MaxCapacity"]) for bound in bounds if "MaxCapacity" in bound)
    if count is None or not least <= count <= most:
        bounds_text = least if least == most else f"{least} to {most}"
        yield Difference("drifted count", name, remedy, key, bounds_text, count)


def list_scheduled_bounds(target: Properties) -> list[Properties]:
    """Return the bounds that the scheduled actions of a scaling target set."""
    actions = target.get("ScheduledActions") or []
    return [action.get("ScalableTargetAction", {}) for action in actions]
