"""Reads the live state from CloudFormation, SageMaker, and Application Auto Scaling."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from infra.parameters.environment import Environment, build_stack_name
from infra.parameters.loading import ValidFile, build_deployed_variants
from infra.policy.update import DeployedVariant
from model_packaging.refusal import PackagingError
from servable.plan.template_changes import find_endpoint_name, find_log_group_names
from servable.project.account import AwsError, Clients, choose_remedy, fetch_or_none


@dataclass(frozen=True)
class TakenName:
    """A resource name that is already in use, and the remedy."""

    resource: str
    problem: str
    remedy: str


def find_taken_names(
    environment: Environment, template: Mapping[str, Any] | None, client: Clients
) -> Iterator[TakenName]:
    """Yield the names that a deployment needs and that a resource outside the stack already has.

    CloudFormation notices them only when it creates the resource, minutes after the deployment
    began. The endpoint configuration and the model have no fixed names, so nothing can have taken
    them. `template` is the deployed one; None if nothing is deployed. Raises one of `AwsError`.
    """
    name, region = environment.endpoint.name, environment.region
    deployed = template or {}
    describe = client("sagemaker").describe_endpoint
    serves = bool(environment.variants)
    new = serves and find_endpoint_name(deployed) != name
    if new and fetch_or_none(describe, EndpointName=name) is not None:
        yield TakenName(
            "endpoint",
            f"an endpoint {name} already exists outside this stack",
            "choose a different endpoint.name, or, if nothing invokes that endpoint, delete it: "
            f"`aws sagemaker delete-endpoint --endpoint-name {name} --region {region}`",
        )
    # SageMaker creates it with an endpoint's first line and keeps it when the endpoint is deleted.
    # https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html
    groups = [f"/aws/sagemaker/Endpoints/{name}"] if serves else []
    if environment.rollout is not None and environment.rollout.golden_requests is not None:
        groups.append(f"/aws/lambda/{name}-golden-requests")
    groups += [f"/aws/vendedlogs/states/{name}-{batch}" for batch in environment.batch]
    for group in groups:
        if group in find_log_group_names(deployed):
            continue
        listed = client("logs").get_paginator("describe_log_groups")
        pages = listed.paginate(logGroupNamePrefix=group)
        if any(there["logGroupName"] == group for page in pages for there in page["logGroups"]):
            yield TakenName(
                "log group",
                f"a log group {group} already exists outside this stack; an earlier endpoint of "
                "that name may have left it",
                "choose a different endpoint.name, or, if you don't need the log group, delete it: "
                f"`aws logs delete-log-group --log-group-name {group} --region {region}`",
            )


# The rollback of a first deployment is over: such a stack can only be deleted, as `cdk deploy` does first.
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html (2026-11-23)
CREATION_FAILED = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
CALM = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE")


@dataclass(frozen=True, kw_only=True)
class OldStack:
    """The stack of an environment before its service, Region, or account changed; a deployment keeps it."""

    name: str
    before: Environment
    """The environment that was deployed as this stack."""
    data: str | None
    """Name of its data stack, which outlives the endpoint; None if it has none."""
    endpoint: str | None
    """Name of its endpoint; None: it only has batches."""
    moves: str
    """What changed, for example "region eu-west-1 becomes us-east-1"."""
    keys: str
    """How to undo that in the file."""
    seen: bool = True
    """Whether the stack is known to exist; False: these credentials can't read it."""


@dataclass(frozen=True, kw_only=True)
class LiveState:
    """The live state of an environment's stack and endpoint; None or empty if missing."""

    stack_status: str | None = None
    unlocking: str | None = None
    """Command that lets a protected stack be deleted whose creation failed; None if there is none."""
    template: Mapping[str, Any] | None = None
    """Template as it was deployed."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of the stack, which CloudFormation adds to its resources."""
    data_template: Mapping[str, Any] | None = None
    """Template of the stack ENV/data as it was deployed."""
    taken: Sequence[TakenName] = ()
    """Names that the file needs and something outside the stack has."""
    old: OldStack | None = None
    """The stack that the environment had before it moved; a deployment doesn't change it."""
    endpoint_name: str | None = None
    """Name of the stack's endpoint, or the file's if an endpoint outside the stack has that name."""
    endpoint_status: str | None = None
    variants: Mapping[str, DeployedVariant] = field(default_factory=dict)
    queued: bool = False
    """Whether the endpoint does asynchronous inference."""
    components: bool = False
    """Whether its models are inference components."""
    instances: Mapping[str, int] = field(default_factory=dict)
    """Instances that run now, by variant; a variant of unknown count is left out."""

    @classmethod
    def from_file(cls, loaded: ValidFile, templates: Mapping[str, Any]) -> "LiveState":
        """Return the state as if exactly this file were deployed, with these templates by kind."""
        return cls(
            template=templates["endpoint"],
            tags=loaded.environment.tags,
            data_template=templates.get("data"),
            endpoint_name=find_endpoint_name(templates["endpoint"]),
            variants=build_deployed_variants(loaded.environment),
            queued=loaded.environment.kind.queued,
        )


def read_live_state(loaded: ValidFile, client: Clients) -> LiveState:
    """Read the live state; `client` returns the boto3 client of a service.

    Raises `PackagingError` if it can't be read, or if the credentials belong to a different
    account.
    """
    environment = loaded.environment
    try:
        who = client("sts").get_caller_identity()["Account"]
        if who != environment.account:
            problem = f"account is {environment.account}, but the credentials belong to {who}"
            remedy = "use a profile of that account (AWS_PROFILE)"
            raise PackagingError(Path(loaded.file), problem, remedy)
        name = build_stack_name(loaded.name, environment, "endpoint")
        state = _read_endpoint_state(environment, name, client)
        if environment.capture is None and environment.asynchronous is None:
            return state
        data = build_stack_name(loaded.name, environment, "data")
        _, template = read_deployed_stack(data, client("cloudformation"))
        return replace(state, data_template=template)
    except AwsError as wrong:
        otherwise = "check your credentials and network, or pass --local or --against REF"
        problem = f"cannot read the deployed resources: {wrong}"
        remedy = choose_remedy(wrong, otherwise)
        raise PackagingError(Path(loaded.file), problem, remedy) from None


def _read_endpoint_state(environment: Environment, stack: str, client: Clients) -> LiveState:
    details, template = read_deployed_stack(stack, client("cloudformation"))
    own, sagemaker = find_endpoint_name(template or {}), client("sagemaker")
    name = own or (environment.endpoint.name if environment.variants else None)
    found = name and fetch_or_none(sagemaker.describe_endpoint, EndpointName=name)
    described, config, scaled = found or {}, {}, set()
    taken = tuple(find_taken_names(environment, template, client))
    if described:
        used = described["EndpointConfigName"]
        config = sagemaker.describe_endpoint_config(EndpointConfigName=used)
        scaled = _list_scaled_variants(described["EndpointName"], client("application-autoscaling"))
    return LiveState(
        stack_status=details.get("StackStatus"),
        unlocking=build_unlocking_command(details),
        template=template,
        tags={tag["Key"]: tag["Value"] for tag in details.get("Tags", [])},
        taken=taken,
        endpoint_name=described.get("EndpointName", own),
        endpoint_status=described.get("EndpointStatus"),
        variants={
            variant["VariantName"]: DeployedVariant(
                instance_type=next(iter(list_instance_types(variant)), None),
                pools=list_instance_types(variant) if "InstancePools" in variant else (),
                scales=variant["VariantName"] in scaled,
                shadow=shadow,
            )
            for shadow, key in ((False, "ProductionVariants"), (True, "ShadowProductionVariants"))
            for variant in config.get(key, [])
        },
        queued="AsyncInferenceConfig" in config,
        components=has_components(config),
        instances={
            running["VariantName"]: int(running["CurrentInstanceCount"])
            for running in described.get("ProductionVariants", [])
            if "CurrentInstanceCount" in running
        },
    )


def has_components(config: Mapping[str, Any]) -> bool:
    """Return whether an endpoint configuration has a variant without a model, for components.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (ModelName is not required, 2026-11-22)
    """
    return any(not variant.get("ModelName") for variant in config.get("ProductionVariants") or [])


def list_instance_types(variant: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the instance types of a DescribeEndpointConfig variant, preferred first."""
    pools = sorted(variant.get("InstancePools") or [], key=lambda pool: int(pool["Priority"]))
    if pools:
        return tuple(pool["InstanceType"] for pool in pools)
    return (variant["InstanceType"],) if "InstanceType" in variant else ()


def build_unlocking_command(stack: Mapping[str, Any]) -> str | None:
    """Return the command that disables the termination protection of a stack that wasn't created.

    Then the stack can be deleted. Returns None unless the stack is protected and its creation
    failed. `stack` is a stack of the response of DescribeStacks; empty if there is no stack.
    """
    locked = stack.get("EnableTerminationProtection")
    if not locked or stack["StackStatus"] not in CREATION_FAILED:
        return None
    return (
        "aws cloudformation update-termination-protection --no-enable-termination-protection "
        f"--stack-name {stack['StackName']} --region {stack['StackId'].split(':')[3]}"
    )


def read_deployed_stack(
    name: str, cloudformation: Any
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """Return the stack from DescribeStacks, empty if there is none, and its deployed template.

    The template is None if no resources of the stack exist.
    """
    described = fetch_or_none(cloudformation.describe_stacks, StackName=name)
    stack = {} if described is None else described["Stacks"][0]
    if not stack or stack["StackStatus"] in ("REVIEW_IN_PROGRESS", "DELETE_COMPLETE"):
        return {}, None  # a change set that was never executed created nothing
    if stack["StackStatus"] == "ROLLBACK_COMPLETE":
        return stack, None  # the resources of its creation are deleted
    body = cloudformation.get_template(StackName=name, TemplateStage="Original")["TemplateBody"]
    return stack, json.loads(body) if isinstance(body, str) else body


def _list_scaled_variants(endpoint: str, scaling: Any) -> set[str]:
    """Return the names of the variants that are scalable targets."""
    paginator = scaling.get_paginator("describe_scalable_targets")
    pages = paginator.paginate(ServiceNamespace="sagemaker")
    prefix = f"endpoint/{endpoint.lower()}/variant/"
    names = (target["ResourceId"] for page in pages for target in page["ScalableTargets"])
    return {name.split("/")[3] for name in names if name.lower().startswith(prefix)}
