"""Scaling: registered, with its bounds and policies, and not suspended."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from servable.verify.deployed import DeployedStack, Resource
from servable.verify.difference import RESTORE, Difference, added, changed, gone, undeclared
from servable.verify.endpoint import TARGET, planned_actions

_SHAPES = ("TargetTrackingScalingPolicyConfiguration", "StepScalingPolicyConfiguration")
# What a policy does where its template is silent.
# https://docs.aws.amazon.com/autoscaling/application/APIReference/API_TargetTrackingScalingPolicyConfiguration.html
# and API_StepScalingPolicyConfiguration.html (2026-11-29). SageMaker's cooldowns:
# https://docs.aws.amazon.com/autoscaling/application/userguide/target-tracking-scaling-policy-overview.html
_DEFAULTS = {
    "DisableScaleIn": False,
    "ScaleInCooldown": 300,
    "ScaleOutCooldown": 300,
    "Cooldown": 300,
    "MetricAggregationType": "Average",
    "MinAdjustmentMagnitude": None,
}
SCALING_POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
BY_HAND = "scaling by hand"


def compare(stack: DeployedStack) -> Iterator[Difference]:
    scaling = stack.account.client("application-autoscaling")
    targets = list(stack.of(TARGET))
    yield from _by_hand(stack, {resource.properties["ResourceId"] for resource in targets})
    for resource in targets:
        wanted = resource.properties
        name = wanted["ResourceId"]
        registered = scaling.describe_scalable_targets(
            ServiceNamespace="sagemaker",
            ResourceIds=[name],
            ScalableDimension=wanted["ScalableDimension"],
        )["ScalableTargets"]
        if not registered:
            yield gone("scaling target", name)
            continue
        bounds = {key: wanted[key] for key in ("MinCapacity", "MaxCapacity")}
        planned = [action.get("ScalableTargetAction", {}) for action in planned_actions(wanted)]
        # A schedule moves the bounds: those of any of its actions are as deployed.
        for key in bounds:
            if registered[0].get(key) in [action.get(key) for action in planned]:
                bounds[key] = registered[0][key]
        remedy = f"it was registered again outside CloudFormation; {RESTORE}"
        yield from changed("scaling bounds", name, bounds, registered[0], remedy)
        suspended, meant = (
            target.get("SuspendedState") or {} for target in (registered[0], wanted)
        )
        resumed = {key: False for key, now in suspended.items() if now and not meant.get(key)}
        remedy = _resume(stack, wanted, resumed)
        yield from changed("scaling suspended", name, resumed, suspended, remedy)
        yield from _schedule(stack, wanted)
    yield from _policies(stack, targets)


def _policies(stack: DeployedStack, targets: list[Resource]) -> Iterator[Difference]:
    """Compare the scaling policies; one outside the template would work against the deployed ones."""
    there = {
        (policy["ResourceId"], policy["PolicyName"]): policy
        for resource in targets
        for policy in stack.account.pages(
            "application-autoscaling",
            "describe_scaling_policies",
            "ScalingPolicies",
            ServiceNamespace="sagemaker",
            ResourceId=resource.properties["ResourceId"],
        )
    }
    for policy in stack.of(SCALING_POLICY):
        wanted = policy.properties
        # Ref of a scalable target is RESOURCE|DIMENSION|NAMESPACE.
        name = (str(wanted["ScalingTargetId"]).partition("|")[0], wanted["PolicyName"])
        if (actual := there.pop(name, None)) is None:
            yield gone("scaling policy", name[1])
            continue
        shape = {key: wanted[key] for key in _SHAPES if key in wanted}
        remedy = f"the policy was changed outside CloudFormation; {RESTORE}"
        yield from changed("scaling policy", name[1], shape, actual, remedy)
        for key, meant in shape.items():
            now = actual.get(key) or {}
            yield from undeclared("scaling policy", name[1], meant, now, _DEFAULTS, remedy)
    for (resource, policy_name), policy_there in sorted(there.items()):
        types = {policy_name: policy_there["PolicyType"]}
        remedy = "write it into [variants.NAME.scaling], or delete it (DeleteScalingPolicy)"
        yield from added(BY_HAND, resource, types, types, remedy, "no such policy")


def _schedule(stack: DeployedStack, wanted: Mapping[str, Any]) -> Iterator[Difference]:
    """Compare the scheduled actions."""
    name = wanted["ResourceId"]
    pages = stack.account.pages(
        "application-autoscaling",
        "describe_scheduled_actions",
        "ScheduledActions",
        ServiceNamespace="sagemaker",
        ResourceId=name,
    )
    there = {scheduled["ScheduledActionName"]: scheduled for scheduled in pages}
    planned = {scheduled["ScheduledActionName"]: scheduled for scheduled in planned_actions(wanted)}
    for action, expected in planned.items():
        if action not in there:
            if not _over(expected):
                yield gone("scheduled action", f"{name}: {action}")
            continue
        remedy = f"the action was changed outside CloudFormation; {RESTORE}"
        yield from changed("scheduled action", f"{name}: {action}", expected, there[action], remedy)
    schedules = {action: there[action]["Schedule"] for action in sorted(there.keys() - planned)}
    remedy = "write it into [variants.NAME.scaling] schedule, or delete it"
    yield from added(BY_HAND, name, schedules, schedules, remedy, "no such scheduled action")


def _resume(stack: DeployedStack, wanted: Mapping[str, Any], states: Mapping[str, bool]) -> str:
    """Return the command that resumes the suspended kinds of scaling."""
    resumed = ",".join(f"{key}={str(value).lower()}" for key, value in states.items())
    return (
        "resume it: `aws application-autoscaling register-scalable-target --service-namespace sagemaker "
        f"--resource-id {wanted['ResourceId']} --scalable-dimension {wanted['ScalableDimension']} "
        f"--suspended-state {resumed} --region {stack.account.region}`"
    )


def _over(planned: Mapping[str, Any]) -> bool:
    """Whether an action was scheduled for one moment in the past."""
    once = re.fullmatch(r"at\((.+)\)", str(planned["Schedule"]))
    if once is None:
        return False
    at = datetime.fromisoformat(once[1])
    return at.replace(tzinfo=ZoneInfo(planned.get("Timezone", "UTC"))) < datetime.now(UTC)


def _by_hand(stack: DeployedStack, wanted: set[str]) -> Iterator[Difference]:
    """Yield scalable targets of variants whose file configures no scaling."""
    (endpoint,) = stack.of("AWS::SageMaker::Endpoint")
    name = endpoint.properties["EndpointName"]
    registered = stack.account.pages(
        "application-autoscaling",
        "describe_scalable_targets",
        "ScalableTargets",
        ServiceNamespace="sagemaker",
    )
    for target in registered:
        resource = target["ResourceId"]
        if resource.startswith(f"endpoint/{name}/variant/") and resource not in wanted:
            remedy = "write [variants.NAME.scaling] into the file, or deregister it"
            yield from added(BY_HAND, resource, target, ["MaxCapacity"], remedy, "no scaling")
