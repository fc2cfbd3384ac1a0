"""Compare scaling: registered, with its bounds and policies, and not suspended."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from servable.verify.deployed import DeployedStack, Properties
from servable.verify.difference import (
    RESTORE,
    Difference,
    build_missing_difference,
    find_changes,
    find_undeclared,
)
from servable.verify.endpoint import ENDPOINT, TARGET, list_scheduled_bounds

_SHAPES = ("TargetTrackingScalingPolicyConfiguration", "StepScalingPolicyConfiguration")
# The defaults of properties that the template omits.
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


def compare_scaling(stack: DeployedStack) -> Iterator[Difference]:
    there = {
        (target["ResourceId"], target["ScalableDimension"]): target
        for target in _list_registered(stack, "describe_scalable_targets", "ScalableTargets")
    }
    targets = [resource.properties for resource in stack.find_resources(TARGET)]
    planned = {wanted["ResourceId"] for wanted in targets}
    (endpoint,) = stack.find_resources(ENDPOINT)
    prefix = f"endpoint/{endpoint.properties['EndpointName']}/variant/"
    for (name, _), actual in there.items():
        if name.startswith(prefix) and name not in planned:
            remedy = "add [variants.NAME.scaling] to the file, or deregister it"
            sides = "no scaling", actual["MaxCapacity"]
            yield Difference(BY_HAND, name, remedy, "MaxCapacity", *sides)
    for wanted in targets:
        registered = there.get((wanted["ResourceId"], wanted["ScalableDimension"]))
        if registered is None:
            yield build_missing_difference("scaling target", wanted["ResourceId"])
        else:
            yield from _compare_target(stack, wanted, registered)
            yield from _compare_schedule(stack, wanted)
    yield from _compare_policies(stack, targets)


def _list_registered(
    stack: DeployedStack, operation: str, key: str, **where: str
) -> Iterator[Properties]:
    """Return what Application Auto Scaling has registered for SageMaker."""
    listing = ("application-autoscaling", operation, key)
    return stack.account.iterate_items(*listing, ServiceNamespace="sagemaker", **where)


def _compare_target(
    stack: DeployedStack, wanted: Properties, actual: Properties
) -> Iterator[Difference]:
    """Compare the bounds of a scaling target, and whether it is suspended."""
    name, scheduled = wanted["ResourceId"], list_scheduled_bounds(wanted)
    # A scheduled action sets the bounds, so that its bounds count as deployed.
    keys = ("MinCapacity", "MaxCapacity")
    changed = [key for key in keys if actual.get(key) not in [each.get(key) for each in scheduled]]
    bounds = {key: wanted[key] for key in changed}
    remedy = f"it was registered again outside CloudFormation; {RESTORE}"
    yield from find_changes("scaling bounds", name, bounds, actual, remedy)
    suspended, meant = (side.get("SuspendedState") or {} for side in (actual, wanted))
    resumed = {key: False for key, now in suspended.items() if now and not meant.get(key)}
    states = ",".join(f"{key}=false" for key in resumed)
    remedy = (
        "resume it: `aws application-autoscaling register-scalable-target --service-namespace sagemaker "
        f"--resource-id {name} --scalable-dimension {wanted['ScalableDimension']} "
        f"--suspended-state {states} --region {stack.account.region}`"
    )
    yield from find_changes("scaling suspended", name, resumed, suspended, remedy)


def _compare_policies(stack: DeployedStack, targets: list[Properties]) -> Iterator[Difference]:
    """Compare the scaling policies. A policy outside the template would work against the deployed ones."""
    listing = ("describe_scaling_policies", "ScalingPolicies")
    there = {
        (policy["ResourceId"], policy["PolicyName"]): policy
        for target in targets
        for policy in _list_registered(stack, *listing, ResourceId=target["ResourceId"])
    }
    for policy in stack.find_resources(SCALING_POLICY):
        wanted, name = policy.properties, policy.properties["PolicyName"]
        # Ref of a scalable target is RESOURCE|DIMENSION|NAMESPACE.
        resource = str(wanted["ScalingTargetId"]).partition("|")[0]
        if (actual := there.pop((resource, name), None)) is None:
            yield build_missing_difference("scaling policy", name)
            continue
        shape = {key: wanted[key] for key in _SHAPES if key in wanted}
        remedy = f"the policy was changed outside CloudFormation; {RESTORE}"
        yield from find_changes("scaling policy", name, shape, actual, remedy)
        for key, meant in shape.items():
            now = actual.get(key) or {}
            yield from find_undeclared("scaling policy", name, meant, now, _DEFAULTS, remedy)
    for (resource, name), added in sorted(there.items()):
        remedy = "add it to [variants.NAME.scaling], or delete it (DeleteScalingPolicy)"
        sides = "no such policy", added["PolicyType"]
        yield Difference(BY_HAND, resource, remedy, name, *sides)


def _compare_schedule(stack: DeployedStack, wanted: Properties) -> Iterator[Difference]:
    """Compare the scheduled actions."""
    name, key = wanted["ResourceId"], "ScheduledActionName"
    listing = ("describe_scheduled_actions", "ScheduledActions")
    there = {each[key]: each for each in _list_registered(stack, *listing, ResourceId=name)}
    for expected in wanted.get("ScheduledActions") or []:
        action = f"{name}: {expected[key]}"
        if (actual := there.pop(expected[key], None)) is not None:
            remedy = f"the action was changed outside CloudFormation; {RESTORE}"
            yield from find_changes("scheduled action", action, expected, actual, remedy)
        elif not _is_over(expected):
            yield build_missing_difference("scheduled action", action)
    for action, added in sorted(there.items()):
        remedy = "add it to [variants.NAME.scaling] schedule, or delete it"
        sides = "no such scheduled action", added["Schedule"]
        yield Difference(BY_HAND, name, remedy, action, *sides)


def _is_over(planned: Properties) -> bool:
    """Return whether an action was scheduled for one moment in the past."""
    once = re.fullmatch(r"at\((.+)\)", str(planned["Schedule"]))
    if once is None:
        return False
    at = datetime.fromisoformat(once[1])
    return at.replace(tzinfo=ZoneInfo(planned.get("Timezone", "UTC"))) < datetime.now(UTC)
