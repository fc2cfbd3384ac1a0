"""Names that a deployment needs and that something outside the stack has already.

CloudFormation finds them only when it creates the resource, minutes after the deployment began. The
endpoint configuration and the model have no fixed names, so that nothing can have taken them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra.parameters.environment import Environment
from servable.plan.template_changes import endpoint_name, log_group_names
from servable.project.account import Clients, unless_absent


@dataclass(frozen=True)
class TakenName:
    """A name that is taken, and the remedy."""

    resource: str
    problem: str
    remedy: str


def taken_names(
    environment: Environment, template: Mapping[str, Any] | None, client: Clients
) -> Iterator[TakenName]:
    """Yield the taken names. `template`: the one that is deployed; None: nothing is.

    Raises one of `AwsError`.
    """
    name, region = environment.endpoint.name, environment.region
    deployed = template or {}
    describe = client("sagemaker").describe_endpoint
    serves = bool(environment.variants)
    new = serves and endpoint_name(deployed) != name
    if new and unless_absent(describe, EndpointName=name) is not None:
        yield TakenName(
            "endpoint",
            f"an endpoint {name} exists already outside this stack",
            "choose another endpoint.name, or, if nobody calls it, delete that endpoint: "
            f"`aws sagemaker delete-endpoint --endpoint-name {name} --region {region}`",
        )
    # SageMaker makes it with an endpoint's first line and keeps it when the endpoint is deleted.
    # https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html
    groups = [f"/aws/sagemaker/Endpoints/{name}"] if serves else []
    if environment.rollout is not None and environment.rollout.golden_requests is not None:
        groups.append(f"/aws/lambda/{name}-golden-requests")
    groups += [f"/aws/vendedlogs/states/{name}-{batch}" for batch in environment.batch]
    for group in groups:
        if group in log_group_names(deployed):
            continue
        listed = client("logs").get_paginator("describe_log_groups")
        pages = listed.paginate(logGroupNamePrefix=group)
        if any(there["logGroupName"] == group for page in pages for there in page["logGroups"]):
            yield TakenName(
                "log group",
                f"a log group {group} exists already outside this stack, as an earlier endpoint of "
                "that name leaves it",
                "choose another endpoint.name, or, if nobody needs its lines, delete that log group: "
                f"`aws logs delete-log-group --log-group-name {group} --region {region}`",
            )
