"""What is live of an environment, as CloudFormation, SageMaker and Application Auto Scaling say."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.parameters.environment import stack_name
from infra.parameters.loading import Loaded, deployed_by
from infra.policy.refused_updates import DeployedVariant
from model_packaging.refusal import PackagingError
from servable.aws_account import AwsError, unless_absent
from servable.plan.template_changes import endpoint_name

Clients = Callable[[str], Any]
CALM = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE")


@dataclass(frozen=True, kw_only=True)
class Live:
    """None and empty: there is no such thing."""

    stack_status: str | None = None
    template: Mapping[str, Any] | None = None
    """As it was deployed."""
    endpoint_name: str | None = None
    """The stack's own; or the file's, where an endpoint has that name and the stack has none."""
    endpoint_status: str | None = None
    variants: Mapping[str, DeployedVariant] = field(default_factory=dict)
    queued: bool = False
    """Asynchronous inference."""
    components: bool = False
    """Whether its models are inference components, which Servable does not make."""
    instances: Mapping[str, int] = field(default_factory=dict)
    """That run now, by variant; what is not known is not there."""

    @classmethod
    def of_file(cls, loaded: Loaded, template: Mapping[str, Any]) -> "Live":
        """As if exactly this file were deployed."""
        environment = loaded.environment
        assert environment is not None
        return cls(
            template=template,
            endpoint_name=environment.endpoint.name,
            variants=deployed_by(environment),
            queued=environment.kind.queued,
        )


def live(loaded: Loaded, client: Clients) -> Live:
    """`client`: of a service's name. Raises `PackagingError` where it cannot be read, or the
    credentials are another account's."""
    environment = loaded.environment
    assert environment is not None
    try:
        who = client("sts").get_caller_identity()["Account"]
        if who != environment.account:
            problem = f"account is {environment.account}, the credentials are of {who}"
            raise PackagingError(
                Path(loaded.file), problem, "use a profile of that account (AWS_PROFILE)"
            )
        name = stack_name(loaded.name, environment, "endpoint")
        return _live(environment.endpoint.name, name, client)
    except AwsError as wrong:
        remedy = "check credentials and network, or give --local or --against REF"
        raise PackagingError(
            Path(loaded.file), f"what is live cannot be read: {wrong}", remedy
        ) from None


def _live(wanted: str, stack: str, client: Clients) -> Live:
    status, template = _stack(stack, client("cloudformation"))
    own = endpoint_name(template) if template else None
    sagemaker = client("sagemaker")
    found = unless_absent(sagemaker.describe_endpoint, EndpointName=own or wanted)
    if found is None:
        return Live(stack_status=status, template=template, endpoint_name=own)
    name = found["EndpointName"]
    config = sagemaker.describe_endpoint_config(EndpointConfigName=found["EndpointConfigName"])
    scaled = _scaled(name, client("application-autoscaling"))
    now = {one["VariantName"]: one for one in found.get("ProductionVariants", [])}
    return Live(
        stack_status=status,
        template=template,
        endpoint_name=name,
        endpoint_status=found["EndpointStatus"],
        variants={
            one["VariantName"]: DeployedVariant(
                instance_type=next(iter(types_of(one)), None),
                pools=types_of(one) if "InstancePools" in one else (),
                scales=one["VariantName"] in scaled,
                shadow=shadow,
            )
            for shadow, key in ((False, "ProductionVariants"), (True, "ShadowProductionVariants"))
            for one in config.get(key, [])
        },
        queued="AsyncInferenceConfig" in config,
        components=hosts_components(config),
        instances={
            name: int(one["CurrentInstanceCount"])
            for name, one in now.items()
            if "CurrentInstanceCount" in one
        },
    )


def hosts_components(config: Mapping[str, Any]) -> bool:
    """Whether an endpoint configuration is for inference components: its variants name no model.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (ModelName is not required, 2026-11-22)
    """
    return any(not one.get("ModelName") for one in config.get("ProductionVariants") or [])


def types_of(variant: Mapping[str, Any]) -> tuple[str, ...]:
    """Instance types of a variant of DescribeEndpointConfig, the preferred one first."""
    pools = sorted(variant.get("InstancePools") or [], key=lambda pool: int(pool["Priority"]))
    if pools:
        return tuple(pool["InstanceType"] for pool in pools)
    return (variant["InstanceType"],) if "InstanceType" in variant else ()


def _stack(name: str, cloudformation: Any) -> tuple[str | None, Mapping[str, Any] | None]:
    found = unless_absent(cloudformation.describe_stacks, StackName=name)
    status = None if found is None else found["Stacks"][0]["StackStatus"]
    if status is None or status in ("REVIEW_IN_PROGRESS", "DELETE_COMPLETE"):
        return None, None  # a change set that was never executed made nothing
    body = cloudformation.get_template(StackName=name, TemplateStage="Original")["TemplateBody"]
    return status, json.loads(body) if isinstance(body, str) else body


def _scaled(endpoint: str, scaling: Any) -> set[str]:
    """The variants that are scalable targets."""
    pages = scaling.get_paginator("describe_scalable_targets").paginate(
        ServiceNamespace="sagemaker"
    )
    parts = [
        one["ResourceId"].split("/")
        for page in pages
        for one in page["ScalableTargets"]
        if one["ResourceId"].lower().startswith(f"endpoint/{endpoint.lower()}/variant/")
    ]
    return {one[3] for one in parts}
