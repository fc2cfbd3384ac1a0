"""The endpoint: its status, configuration, weights and counts, and what its containers run."""

from collections.abc import Iterator, Mapping
from typing import Any

from servable.plan.live import hosts_components
from servable.project.account import unless_absent
from servable.verify.deployed import DeployedStack, Resource
from servable.verify.difference import RESTORE, Difference, added, changed, gone

TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
KINDS = ("ProductionVariants", "ShadowProductionVariants")
COMPONENTS = "inference components"
CANNOT_COMPARE = "this stack neither made nor compares these"

# Beyond the template's own: with any of these set an endpoint is another one.
_CONFIG_EXTRAS = (
    "DataCaptureConfig",
    "ShadowProductionVariants",
    "AsyncInferenceConfig",
    "KmsKeyId",
)
_MODEL_EXTRAS = ("VpcConfig", "EnableNetworkIsolation", "Containers", "InferenceExecutionConfig")


def compare(stack: DeployedStack) -> Iterator[Difference]:
    sagemaker = stack.account.client("sagemaker")
    for resource in stack.of("AWS::SageMaker::Endpoint"):
        name = resource.properties["EndpointName"]
        live = unless_absent(sagemaker.describe_endpoint, EndpointName=name)
        if live is None:
            yield gone("endpoint", name)
            continue
        yield from _status(live)
        differences = list(_config(stack, resource, live))
        yield from differences
        if not any(difference.kind == COMPONENTS for difference in differences):
            yield from _fleet(stack, live)


def _status(live: Mapping[str, Any]) -> Iterator[Difference]:
    name, status = live["EndpointName"], live["EndpointStatus"]
    if status != "InService":
        why = live.get("FailureReason", "describe_endpoint gives no reason")
        yield Difference(
            kind="endpoint status",
            resource=name,
            wanted="InService",
            found=status,
            remedy=f"the reason: {why}" if status == "Failed" else "wait, then verify again",
        )


def _config(
    stack: DeployedStack, resource: Resource, live: Mapping[str, Any]
) -> Iterator[Difference]:
    """A rollback leaves the old configuration live, and the endpoint InService."""
    name, wanted = live["EndpointName"], resource.properties["EndpointConfigName"]
    why = live.get("FailureReason") or "no reason is stated: look at the alarm topic's events"
    yield from changed(
        "silent rollback",
        name,
        {"EndpointConfigName": wanted},
        live,
        f"what is live is not what was deployed; {why}; correct that, and {RESTORE}",
    )
    yield from changed(
        "deployment guardrails",
        name,
        resource.properties.get("DeploymentConfig", {}),
        live.get("LastDeploymentConfig") or resource.properties.get("DeploymentConfig", {}),
        f"somebody updated the endpoint without them; {RESTORE}",
    )
    sagemaker = stack.account.client("sagemaker")
    config = unless_absent(
        sagemaker.describe_endpoint_config, EndpointConfigName=live["EndpointConfigName"]
    )
    if config is None:
        yield gone("endpoint configuration", live["EndpointConfigName"])
        return
    (meant,) = stack.of("AWS::SageMaker::EndpointConfig")
    if hosts_components(config) and not hosts_components(meant.properties):
        yield Difference(
            kind=COMPONENTS,
            resource=name,
            wanted="variants with models",
            found="variants without models, for inference components",
            remedy=f"{CANNOT_COMPARE}: look with `aws sagemaker list-inference-components "
            f"--endpoint-name-equals {name}`",
        )
        return
    remedy = f"{RESTORE}; CloudTrail names who changed it (UpdateEndpoint)"
    # Another model is told of by what is in it, below: its name says nothing.
    yield from changed(
        "endpoint configuration", name, _nameless(meant.properties), _nameless(config), remedy
    )
    yield from _extras("endpoint configuration", name, meant.properties, config, _CONFIG_EXTRAS)
    capture, capturing = (
        {"EnableCapture": bool(side.get("DataCaptureConfig", {}).get("EnableCapture"))}
        for side in (meant.properties, live)
    )
    yield from changed("data capture", name, capture, capturing, RESTORE)
    yield from _models(stack, meant.properties, config)
    yield from _components(stack)


def _components(stack: DeployedStack) -> Iterator[Difference]:
    """Compare what each component's copies run and reserve; how many run is no difference."""
    sagemaker = stack.account.client("sagemaker")
    for resource in stack.of("AWS::SageMaker::InferenceComponent"):
        name, wanted = resource.properties["InferenceComponentName"], resource.properties
        live = unless_absent(sagemaker.describe_inference_component, InferenceComponentName=name)
        if live is None:
            yield gone("inference component", name)
            continue
        if live["InferenceComponentStatus"] == "Failed":
            yield Difference(
                kind="inference component",
                resource=name,
                wanted="InService",
                found="Failed",
                remedy=f"the reason: {live.get('FailureReason', 'none is stated')}",
            )
        specification = {"Specification": wanted["Specification"]}
        remedy = f"it was updated outside CloudFormation; {RESTORE}"
        yield from changed("inference component", name, specification, live, remedy)
        models = {each.name: each for each in stack.of("AWS::SageMaker::Model")}
        running = unless_absent(
            sagemaker.describe_model, ModelName=live["Specification"]["ModelName"]
        )
        if (meant := models.get(wanted["Specification"]["ModelName"])) and running:
            yield from model(meant.name, meant.properties, running)


def _nameless(config: Mapping[str, Any]) -> dict[str, Any]:
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


def _variants(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [variant for kind in KINDS for variant in config.get(kind) or []]


def _extras(
    kind: str,
    name: str,
    wanted: Mapping[str, Any],
    actual: Mapping[str, Any],
    keys: tuple[str, ...],
) -> Iterator[Difference]:
    more = [key for key in keys if actual.get(key) and key not in wanted]
    yield from added(kind, name, actual, more, f"{RESTORE}, or write it into the file")


def _models(
    stack: DeployedStack, meant: Mapping[str, Any], config: Mapping[str, Any]
) -> Iterator[Difference]:
    sagemaker = stack.account.client("sagemaker")
    live = {key: name for variant in _variants(config) for key, name in _named(variant)}
    models = {resource.name: resource for resource in stack.of("AWS::SageMaker::Model")}
    for key, deployed_name in (pair for variant in _variants(meant) for pair in _named(variant)):
        name, wanted = live.get(key), models.get(deployed_name)
        if name is None or wanted is None:
            continue  # a variant that is not there was told of with the configuration
        actual = unless_absent(sagemaker.describe_model, ModelName=name)
        if actual is None:
            yield gone("model", name)
            continue
        yield from model(name, wanted.properties, actual)


def batch_models(stack: DeployedStack) -> Iterator[Difference]:
    """Compare the models that no endpoint has: those of batches."""
    served = {
        name
        for config in stack.of("AWS::SageMaker::EndpointConfig")
        for variant in _variants(config.properties)
        for _, name in _named(variant)
    }
    served |= {
        component.properties["Specification"].get("ModelName")
        for component in stack.of("AWS::SageMaker::InferenceComponent")
    }
    for resource in stack.of("AWS::SageMaker::Model"):
        if resource.name not in served:
            describe = stack.account.client("sagemaker").describe_model
            actual = unless_absent(describe, ModelName=resource.name)
            if actual is None:
                yield gone("model", resource.name)
            else:
                yield from model(resource.name, resource.properties, actual)


def _named(variant: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield ((variant, instance type), model) for each instance type; "" where there is only one."""
    pools = variant.get("InstancePools") or [{}]
    for pool in pools:
        name = pool.get("ModelNameOverride") or variant.get("ModelName")
        if name is not None:  # inference components bring their own models
            yield (variant["VariantName"], pool.get("InstanceType", "")), name


def model(name: str, wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[Difference]:
    """Compare image, archive, role and every environment variable of a model."""
    remedy = f"the endpoint runs another model; {RESTORE}"
    yield from changed("model", name, wanted, actual, remedy)
    yield from _extras("model", name, wanted, actual, _MODEL_EXTRAS)
    expected, there = (
        properties.get("PrimaryContainer", {}).get("Environment", {})
        for properties in (wanted, actual)
    )
    more = {
        f"PrimaryContainer.Environment.{key}": there[key] for key in there if key not in expected
    }
    yield from added("model", name, more, more, remedy)


def fleets(stack: DeployedStack) -> Iterator[str]:
    """Yield a sentence for each variant with instance pools: how many instances are of which type."""
    sagemaker = stack.account.client("sagemaker")
    for resource in stack.of("AWS::SageMaker::Endpoint"):
        live = unless_absent(
            sagemaker.describe_endpoint, EndpointName=resource.properties["EndpointName"]
        )
        for variant in _variants(live or {}):
            pools = {
                pool["InstanceType"]: int(pool["CurrentInstanceCount"])
                for pool in variant.get("InstancePools") or []
            }
            if pools:
                yield f"{variant['VariantName']} runs on {_counts(stack, variant, pools)}"


def _counts(stack: DeployedStack, variant: Mapping[str, Any], pools: Mapping[str, int]) -> str:
    (config,) = stack.of("AWS::SageMaker::EndpointConfig")
    preferred = [
        settings["InstancePools"][0]["InstanceType"]
        for settings in _variants(config.properties)
        if settings["VariantName"] == variant["VariantName"] and settings.get("InstancePools")
    ]
    # What the file prefers comes first, whatever order AWS answers in.
    order = sorted(pools, key=lambda kind: kind not in preferred)
    shown = ", ".join(f"{pools[kind]} x {kind}" for kind in order)
    elsewhere = sum(count for kind, count in pools.items() if kind not in preferred)
    if not preferred or not elsewhere:
        return shown
    return (
        f"{shown}: AWS had too few of {preferred[0]} when {elsewhere} of them started; they stay until "
        "scaling removes them, these first, or an update replaces the fleet"
    )


def _fleet(stack: DeployedStack, live: Mapping[str, Any]) -> Iterator[Difference]:
    """Compare weights and instance counts. `live`: the answer of DescribeEndpoint."""
    scaled = {
        resource.properties["ResourceId"].split("/")[-1]: resource.properties
        for resource in stack.of(TARGET)
    }
    (config,) = stack.of("AWS::SageMaker::EndpointConfig")
    there = {settings["VariantName"]: settings for settings in _variants(live)}
    for settings in _variants(config.properties):
        variant = settings["VariantName"]
        if variant not in there:
            continue  # told of with the configuration
        name = f"{live['EndpointName']}/{variant}"
        weight = {"CurrentWeight": settings["InitialVariantWeight"]}
        remedy = _set_back(stack, live, variant, "Weight", settings["InitialVariantWeight"])
        yield from changed("drifted weight", name, weight, there[variant], remedy)
        target = scaled.get(variant)
        if (managed := settings.get("ManagedInstanceScaling")) is not None:
            bounds = (("MinCapacity", "MinInstanceCount"), ("MaxCapacity", "MaxInstanceCount"))
            target = {key: managed[bound] for key, bound in bounds}
        back = _set_back(
            stack, live, variant, "InstanceCount", settings.get("InitialInstanceCount")
        )
        yield from _count(name, settings, there[variant], target, back)


def _set_back(
    stack: DeployedStack, live: Mapping[str, Any], variant: str, what: str, value: object
) -> str:
    """Return the command that sets a variant's weight or number of instances."""
    return (
        "set it back: `aws sagemaker update-endpoint-weights-and-capacities "
        f"--endpoint-name {live['EndpointName']} --region {stack.account.region} "
        f"--desired-weights-and-capacities VariantName={variant},Desired{what}={value}`"
    )


def _count(
    name: str,
    wanted: Mapping[str, Any],
    now: Mapping[str, Any],
    target: Mapping[str, Any] | None,
    back: str,
) -> Iterator[Difference]:
    """Compare the number of instances; for serverless, of provisioned concurrency.

    `back`: how to set the number of instances back where nothing scales.
    """
    key, started, count = _counted(wanted, now)
    if started is None and count is None:
        return  # serverless, with none kept warm
    least = most = int(started or 0)
    if target is not None:
        planned = [action.get("ScalableTargetAction", {}) for action in planned_actions(target)]
        bounds = [target, *planned]
        least = min(int(bound["MinCapacity"]) for bound in bounds if "MinCapacity" in bound)
        most = max(int(bound["MaxCapacity"]) for bound in bounds if "MaxCapacity" in bound)
    if count is None or not least <= count <= most:
        yield Difference(
            kind="drifted count",
            resource=name,
            key=key,
            wanted=least if least == most else f"{least} to {most}",
            found=count,
            remedy=(back if key == "CurrentInstanceCount" else RESTORE)
            if target is None
            else "scaling has not brought it back: look at its activities",
        )


def _counted(
    wanted: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[str, int | None, int | None]:
    """Return (the counted property, its initial value, its current value)."""
    if "ServerlessConfig" in wanted:
        serverless = now.get("CurrentServerlessConfig") or {}
        key = "ProvisionedConcurrency"
        return key, wanted["ServerlessConfig"].get(key), serverless.get(key)
    return "CurrentInstanceCount", wanted["InitialInstanceCount"], now.get("CurrentInstanceCount")


def planned_actions(target: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the scheduled actions of a scaling target, which move its bounds."""
    actions: list[Mapping[str, Any]] = target.get("ScheduledActions") or []
    return actions
