"""Three ways from a live endpoint to a stack: their steps, downtime, cost and rollback."""

import copy
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from servable.adoption.expressed_alarms import MADE_BY_TRACKING, threshold
from servable.adoption.live_fields import HIDDEN
from servable.adoption.live_picture import STACK_TAG, LivePicture, variants_of
from servable.adoption.live_template import CONFIG, ENDPOINT, LOGS, MODEL

BESIDE, IMPORT, DELETE = "beside", "import", "delete"
WAYS = (BESIDE, IMPORT, DELETE)
_IMPORTED = (MODEL, CONFIG, ENDPOINT)


@dataclass(frozen=True, kw_only=True)
class TakeOverStep:
    why: str
    command: str = ""
    """Empty: something that no command does."""


@dataclass(frozen=True, kw_only=True)
class TakeOver:
    """One way to take an endpoint over."""

    way: str
    downtime: str
    cost: str
    rollback: str
    steps: tuple[TakeOverStep, ...]


@dataclass(frozen=True, kw_only=True)
class NewOwner:
    """The environment that takes over."""

    environment: str
    endpoint_name: str
    stack: str
    """Name of the stack ENV/endpoint in CloudFormation."""
    options: str = ""
    """Options of `servable` for this run, with a space before each."""
    files: str = ""
    """Folder of the files of an import."""


def take_over(way: str, picture: LivePicture, owner: NewOwner) -> TakeOver:
    """Return the steps of one of `WAYS`.

    Raises ValueError where the way needs another endpoint.name; its text is the remedy.
    """
    live, own = str(picture.endpoint["EndpointName"]), owner.endpoint_name
    if (way == BESIDE) == (own.lower() == live.lower()):
        wanted = "another name than the live one's" if way == BESIDE else f"the live one's, {live}"
        problem = f"endpoint.name is {own}; --way {way} needs {wanted}: change it in the file"
        raise ValueError(problem)
    return {BESIDE: _beside, IMPORT: _import, DELETE: _delete}[way](picture, owner)


def _beside(picture: LivePicture, owner: NewOwner) -> TakeOver:
    live, own = picture.endpoint["EndpointName"], owner.endpoint_name
    delete = f"aws sagemaker delete-endpoint --endpoint-name {live} {_region(picture)}"
    return TakeOver(
        way=BESIDE,
        downtime="none: both endpoints answer until the old one is deleted",
        cost=f"two fleets from the first step to the last: {_fleet(picture)} once more",
        rollback=f"until the last step callers go back to {live}; then `{_destroy(owner)}`",
        steps=(
            TakeOverStep(why=f"make {own} beside {live}", command=_deploy(owner)),
            _verify(owner),
            TakeOverStep(
                why=f"point callers, their permissions and dashboards from {live} to {own}"
            ),
            TakeOverStep(
                why=f"wait until no hour shows a request of {live}", command=_requests(picture)
            ),
            _removal(picture, delete),
        ),
    )


def _import(picture: LivePicture, owner: NewOwner) -> TakeOver:
    region, stack = _region(picture), owner.stack
    set_of = f"--stack-name {stack} --change-set-name adopt {region}"
    return TakeOver(
        way=IMPORT,
        downtime="none: the import changes nothing, and the deploy after it is an update",
        cost="none by the import; the update runs a second fleet, as every update does",
        rollback="until the deploy: the stack is deleted and everything in it is retained, "
        f"`aws cloudformation delete-stack --stack-name {stack} {region}`",
        steps=(
            *_owned(picture),
            TakeOverStep(
                why="plan the import of what is live, as it is live; if CloudFormation cannot import a type "
                "in this region, it refuses here, and nothing has changed",
                command=f"aws cloudformation create-change-set --change-set-type IMPORT {set_of} "
                f"--template-body file://{owner.files}/template.json "
                f"--resources-to-import file://{owner.files}/resources.json && "
                f"aws cloudformation wait change-set-create-complete {set_of}",
            ),
            TakeOverStep(
                why="import it",
                command=f"aws cloudformation execute-change-set {set_of} && "
                f"aws cloudformation wait stack-import-complete --stack-name {stack} {region}",
            ),
            *_released(picture),
            TakeOverStep(
                why="make the changes that the plan shows, as one update", command=_deploy(owner)
            ),
            _verify(owner),
            *_alarms(picture, replaced=True),
        ),
    )


def _delete(picture: LivePicture, owner: NewOwner) -> TakeOver:
    live, region = picture.endpoint["EndpointName"], _region(picture)
    again = (
        f"aws sagemaker create-endpoint --endpoint-name {live} "
        f"--endpoint-config-name {picture.config['EndpointConfigName']} {region}"
    )
    return TakeOver(
        way=DELETE,
        downtime=f"from the first step until the new {live} is in service: 4 to 10 minutes are usual",
        cost="none besides: one fleet at a time",
        rollback=f"until the last step: `{_destroy(owner)}`, then `{again}`; tags, scaling and alarms "
        "are then to be set again",
        steps=(
            *_owned(picture),
            TakeOverStep(
                why=f"delete {live}; its configuration, its models and its data in S3 stay",
                command=f"aws sagemaker delete-endpoint --endpoint-name {live} {region} && "
                f"aws sagemaker wait endpoint-deleted --endpoint-name {live} {region}",
            ),
            # https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/import-resources-automatically.html
            TakeOverStep(
                why="make it again; the log group, which SageMaker left, becomes the stack's",
                command=f"{_deploy(owner)} -c {owner.environment}.endpoint.log_removal=retain "
                "--import-existing-resources",
            ),
            _verify(owner),
            _removal(picture, None),
        ),
    )


def _deploy(owner: NewOwner) -> str:
    return f"cdk deploy '{owner.environment}/*'"


def _destroy(owner: NewOwner) -> str:
    return f"cdk destroy '{owner.environment}/*'"


def _region(picture: LivePicture) -> str:
    return f"--region {picture.region}"


def _verify(owner: NewOwner) -> TakeOverStep:
    command = f"servable verify {owner.environment}{owner.options}"
    return TakeOverStep(
        why="compare what is live with the file, and answers with golden ones", command=command
    )


def _fleet(picture: LivePicture) -> str:
    running = {each["VariantName"]: each for each, _ in variants_of(picture.endpoint)}
    shown = []
    for variant, _ in variants_of(picture.config):
        count = running.get(variant["VariantName"], {}).get("CurrentInstanceCount", "?")
        pools = [pool["InstanceType"] for pool in variant.get("InstancePools") or []]
        kind = variant.get("InstanceType") or ", else ".join(pools)
        shown.append(f"{count} x {kind}" if kind else f"{variant['VariantName']} (serverless)")
    return ", ".join(shown)


def _requests(picture: LivePicture) -> str:
    (variant, _), *_ = variants_of(picture.config)
    dimensions = (
        f"Name=EndpointName,Value={picture.endpoint['EndpointName']} "
        f"Name=VariantName,Value={variant['VariantName']}"
    )
    return (
        "aws cloudwatch get-metric-statistics --namespace AWS/SageMaker --metric-name Invocations "
        f"--dimensions {dimensions} --statistics Sum --period 3600 "
        '--start-time "$(date -u -d -1day +%FT%TZ)" --end-time "$(date -u +%FT%TZ)" '
        f"{_region(picture)}"
    )


def _owned(picture: LivePicture) -> Iterator[TakeOverStep]:
    """Yield what an endpoint of another stack needs first."""
    if stack := picture.tags.get(STACK_TAG):
        yield TakeOverStep(
            why=f"the endpoint is a resource of stack {stack}: there, set DeletionPolicy Retain on "
            "endpoint, configuration and models, deploy, take them out of its template, deploy again"
        )


def _released(picture: LivePicture) -> Iterator[TakeOverStep]:
    """Yield the step that takes targets away, as the stack registers its own.

    A second target tracking policy for one metric is refused, and the live one has another name.
    """
    commands = [
        "aws application-autoscaling deregister-scalable-target --service-namespace sagemaker "
        f"--resource-id {target['ResourceId']} --scalable-dimension {target['ScalableDimension']} "
        f"{_region(picture)}"
        for target in picture.targets
    ]
    if commands:
        why = (
            "end scaling by hand: the number of instances stays, and the deploy registers it again"
        )
        yield TakeOverStep(why=why, command=" && ".join(commands))


def _removal(picture: LivePicture, first: str | None) -> TakeOverStep:
    """Return the step that deletes what is left of the old endpoint. `first`: a command before."""
    stack = picture.tags.get(STACK_TAG)
    region = _region(picture)
    if stack and first:
        command = f"aws cloudformation delete-stack --stack-name {stack} {region}"
        return TakeOverStep(
            why=f"delete the stack {stack}, which the old endpoint is a resource of",
            command=command,
        )
    config = picture.config["EndpointConfigName"]
    commands = [first] if first else []
    commands.append(
        f"aws sagemaker delete-endpoint-config --endpoint-config-name {config} {region}"
    )
    commands += [
        f"aws sagemaker delete-model --model-name {name} {region}" for name in picture.models
    ]
    commands += [step.command for step in _alarms(picture, replaced=first is None)]
    return TakeOverStep(why="delete what is left of the old one", command=" && ".join(commands))


def _alarms(picture: LivePicture, *, replaced: bool) -> Iterator[TakeOverStep]:
    """Yield the step that deletes alarms made by hand; those of target tracking go with the target.

    `replaced`: only those that the stack makes again, as the others go on watching the endpoint.
    """
    variants = {
        each["VariantName"]: each.get("InstanceType") for each, _ in variants_of(picture.config)
    }
    names = [
        alarm["AlarmName"]
        for alarm in picture.alarms
        if not alarm["AlarmName"].startswith(MADE_BY_TRACKING)
        and (not replaced or threshold(alarm, variants) is not None)
    ]
    if names:
        command = (
            f"aws cloudwatch delete-alarms --alarm-names {shlex.join(names)} {_region(picture)}"
        )
        yield TakeOverStep(why="delete alarms that the stack's own replace", command=command)


def import_files(
    picture: LivePicture, before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return (template, resources to import) of what is live, for a change set of type IMPORT.

    `before`: `live_template`; `after`: the template of the file. Identifiers are the primaryIdentifier of
    CloudFormation's schemas: https://github.com/aws-cloudformation/cfn-lint, 1.58.0 (2026-11)
    """
    resources: dict[str, Any] = {}
    identified = []
    for logical_id, resource in before["Resources"].items():
        if resource["Type"] in _IMPORTED:
            properties = copy.deepcopy(resource["Properties"])
            variables = properties.get("PrimaryContainer", {}).get("Environment", {})
            for variable in [name for name, value in variables.items() if value == HIDDEN]:
                del variables[variable]  # a secret stays out of every file
            resources[logical_id] = {
                "Type": resource["Type"],
                "Properties": properties,
                "DeletionPolicy": "Retain",  # CloudFormation imports nothing without one
            }
            identified.append((resource["Type"], logical_id, resource["Identifier"]))
    group = picture.log_group
    for logical_id, resource in after["Resources"].items():
        name = resource.get("Properties", {}).get("LogGroupName")
        if resource["Type"] == LOGS and group and name == group["logGroupName"]:
            days = group.get("retentionInDays")
            properties = {"LogGroupName": name, **({"RetentionInDays": days} if days else {})}
            resources[logical_id] = {
                "Type": LOGS,
                "Properties": properties,
                "DeletionPolicy": "Retain",
            }
            identified.append((LOGS, logical_id, {"LogGroupName": name}))
    rows = [
        {"ResourceType": kind, "LogicalResourceId": logical_id, "ResourceIdentifier": identifier}
        for kind, logical_id, identifier in identified
    ]
    return {"Resources": resources}, rows
