"""The endpoint: its status, configuration, weights and counts, and what its containers run."""

from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from servable.aws_account import absent
from servable.verify import fleet
from servable.verify.comparison import unequal
from servable.verify.deployed import Deployed, Resource
from servable.verify.difference import Difference
from servable.verify.fleet import KINDS

# Beyond the template's own: with any of these set an endpoint is another one.
_CONFIG_EXTRAS = (
    "DataCaptureConfig",
    "ShadowProductionVariants",
    "AsyncInferenceConfig",
    "KmsKeyId",
)
_MODEL_EXTRAS = ("VpcConfig", "EnableNetworkIsolation", "Containers", "InferenceExecutionConfig")


def look(stack: Deployed) -> Iterator[Difference]:
    sagemaker = stack.account.client("sagemaker")
    for one in stack.of("AWS::SageMaker::Endpoint"):
        name = one.properties["EndpointName"]
        live = _described(sagemaker.describe_endpoint, EndpointName=name)
        if live is None:
            yield gone("endpoint", name)
            continue
        yield from _status(live)
        yield from _config(stack, one, live)
        yield from fleet.look(stack, live)


def gone(what: str, name: str) -> Difference:
    return Difference(
        kind=f"{what} missing",
        resource=name,
        wanted="there",
        found="not there",
        remedy="somebody deleted it: deploy again (`cdk deploy --force`, or another revision)",
    )


def changed(
    kind: str, resource: str, wanted: Mapping[str, Any], found: Mapping[str, Any], remedy: str
) -> Iterator[Difference]:
    """One difference for every property that is not as deployed."""
    for path, value, now in unequal(wanted, found):
        yield Difference(
            kind=kind, resource=resource, key=path, wanted=value, found=now, remedy=remedy
        )


def _described(call: Any, **asked: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = call(**asked)
    except ClientError as error:
        if absent(error):
            return None
        raise
    return found


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


def _config(stack: Deployed, one: Resource, live: Mapping[str, Any]) -> Iterator[Difference]:
    """A rollback leaves the old configuration live, and the endpoint InService."""
    name, wanted, found = (
        live["EndpointName"],
        one.properties["EndpointConfigName"],
        live["EndpointConfigName"],
    )
    if wanted != found:
        why = live.get("FailureReason") or "no reason is stated: look at the alarm topic's events"
        yield Difference(
            kind="silent rollback",
            resource=name,
            key="EndpointConfigName",
            wanted=wanted,
            found=found,
            remedy=f"what is live is not what was deployed; {why}",
        )
    yield from changed(
        "deployment guardrails",
        name,
        one.properties.get("DeploymentConfig", {}),
        live.get("LastDeploymentConfig") or one.properties.get("DeploymentConfig", {}),
        "somebody updated the endpoint without them: deploy again",
    )
    sagemaker = stack.account.client("sagemaker")
    config = _described(sagemaker.describe_endpoint_config, EndpointConfigName=found)
    if config is None:
        yield gone("endpoint configuration", found)
        return
    (meant,) = stack.of("AWS::SageMaker::EndpointConfig")
    remedy = "deploy again; who changed it stands in CloudTrail (UpdateEndpoint)"
    # Another model is told of by what is in it, below: its name says nothing.
    yield from changed(
        "endpoint configuration", name, _nameless(meant.properties), _nameless(config), remedy
    )
    yield from _extras("endpoint configuration", name, meant.properties, config, _CONFIG_EXTRAS)
    yield from _capture(meant.properties, live)
    yield from _models(stack, meant.properties, config)


def _nameless(config: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        key: value for key, value in config.items() if key not in ("EndpointConfigName", "Tags")
    }
    for kind in KINDS:
        if kind in config:
            kept[kind] = [
                {key: value for key, value in one.items() if key != "ModelName"}
                for one in config[kind]
            ]
    return kept


def _variants(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for kind in KINDS for one in config.get(kind) or []]


def _extras(
    kind: str, name: str, wanted: Mapping[str, Any], found: Mapping[str, Any], keys: tuple[str, ...]
) -> Iterator[Difference]:
    for key in keys:
        if found.get(key) and key not in wanted:
            yield Difference(
                kind=kind,
                resource=name,
                key=key,
                wanted=None,
                found=found[key],
                remedy="deploy again, or write it into the file",
            )


def _capture(config: Mapping[str, Any], live: Mapping[str, Any]) -> Iterator[Difference]:
    wanted = bool(config.get("DataCaptureConfig", {}).get("EnableCapture"))
    found = bool(live.get("DataCaptureConfig", {}).get("EnableCapture"))
    if wanted != found:
        yield Difference(
            kind="data capture",
            resource=live["EndpointName"],
            key="EnableCapture",
            wanted=wanted,
            found=found,
            remedy="deploy again",
        )


def _models(
    stack: Deployed, meant: Mapping[str, Any], config: Mapping[str, Any]
) -> Iterator[Difference]:
    sagemaker = stack.account.client("sagemaker")
    live = {one["VariantName"]: one["ModelName"] for one in _variants(config)}
    models = {one.name: one for one in stack.of("AWS::SageMaker::Model")}
    for one in _variants(meant):
        name, wanted = live.get(one["VariantName"]), models.get(one["ModelName"])
        if name is None or wanted is None:
            continue  # a variant that is not there was told of with the configuration
        found = _described(sagemaker.describe_model, ModelName=name)
        if found is None:
            yield gone("model", name)
            continue
        yield from model(name, wanted.properties, found)


def model(name: str, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[Difference]:
    """Image, archive, role and every environment variable."""
    remedy = "what is live runs another model: deploy again"
    yield from changed("model", name, wanted, found, remedy)
    yield from _extras("model", name, wanted, found, _MODEL_EXTRAS)
    said = wanted.get("PrimaryContainer", {}).get("Environment", {})
    for key, value in found.get("PrimaryContainer", {}).get("Environment", {}).items():
        if key not in said:
            yield Difference(
                kind="model",
                resource=name,
                key=f"PrimaryContainer.Environment.{key}",
                wanted=None,
                found=value,
                remedy=remedy,
            )
