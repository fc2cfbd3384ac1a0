"""Compare scaling: registered, with its bounds and policies, and not suspended."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from servable.verify.deployed import DeployedStack, Resource
from servable.verify.difference import (
    RESTORE,
    Difference,
    build_missing_difference,
    find_changes,
    find_undeclared,
    report_added_keys,
)
from servable.verify.endpoint import TARGET, list_scheduled_bounds

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
    scaling = stack.account.client("application-autoscaling")
    targets = list(stack.find_resources(TARGET))
    yield from _find_manual_scaling(
        stack, {resource.properties["ResourceId"] for resource in targets}
    )
    for resource in targets:
        wanted = resource.properties
        name = wanted["ResourceId"]
        registered = scaling.describe_scalable_targets(
            ServiceNamespace="sagemaker",
            ResourceIds=[name],
            ScalableDimension=wanted["ScalableDimension"],
        )["ScalableTargets"]
        if not registered:
            yield build_missing_difference("scaling target", name)
            continue
        bounds = {key: wanted[key] for key in ("MinCapacity", "MaxCapacity")}
        # A scheduled action sets the bounds, so that its bounds count as deployed.
        for key in bounds:
            if registered[0].get(key) in [each.get(key) for each in list_scheduled_bounds(wanted)]:
                bounds[key] = registered[0][key]
        remedy = f"it was registered again outside CloudFormation; {RESTORE}"
        yield from find_changes("scaling bounds", name, bounds, registered[0], remedy)
        suspended, meant = (
            target.get("SuspendedState") or {} for target in (registered[0], wanted)
        )
        resumed = {key: False for key, now in suspended.items() if now and not meant.get(key)}
        remedy = _format_resume_command(stack, wanted, resumed)
        yield from find_changes("scaling suspended", name, resumed, suspended, remedy)
        yield from _compare_schedule(stack, wanted)
    yield from _compare_policies(stack, targets)


def _compare_policies(stack: DeployedStack, targets: list[Resource]) -> Iterator[Difference]:
    """Compare the scaling policies. A policy outside the template would work against the deployed ones."""
    there = {
        (policy["ResourceId"], policy["PolicyName"]): policy
        for resource in targets
        for policy in stack.account.iterate_items(
            "application-autoscaling",
            "describe_scaling_policies",
            "ScalingPolicies",
            ServiceNamespace="sagemaker",
            ResourceId=resource.properties["ResourceId"],
        )
    }
    for policy in stack.find_resources(SCALING_POLICY):
        wanted = policy.properties
        # Ref of a scalable target is RESOURCE|DIMENSION|NAMESPACE.
        name = (str(wanted["ScalingTargetId"]).partition("|")[0], wanted["PolicyName"])
        if (actual := there.pop(name, None)) is None:
            yield build_missing_difference("scaling policy", name[1])
            continue
        shape = {key: wanted[key] for key in _SHAPES if key in wanted}
        remedy = f"the policy was changed outside CloudFormation; {RESTORE}"
        yield from find_changes("scaling policy", name[1], shape, actual, remedy)
        for key, meant in shape.items():
            now = actual.get(key) or {}
            yield from find_undeclared("scaling policy", name[1], meant, now, _DEFAULTS, remedy)
    for (resource, policy_name), policy_there in sorted(there.items()):
        types = {policy_name: policy_there["PolicyType"]}
        remedy = "add it to [variants.NAME.scaling], or delete it (DeleteScalingPolicy)"
        yield from report_added_keys(BY_HAND, resource, types, types, remedy, "no such policy")


def _compare_schedule(stack: DeployedStack, wanted: Mapping[str, Any]) -> Iterator[Difference]:
    """Compare the scheduled actions."""
    name = wanted["ResourceId"]
    pages = stack.account.iterate_items(
        "application-autoscaling",
        "describe_scheduled_actions",
        "ScheduledActions",
        ServiceNamespace="sagemaker",
        ResourceId=name,
    )
    there = {scheduled["ScheduledActionName"]: scheduled for scheduled in pages}
    planned = {
        scheduled["ScheduledActionName"]: scheduled
        for scheduled in wanted.get("ScheduledActions") or []
    }
    for action, expected in planned.items():
        if action not in there:
            if not _is_over(expected):
                yield build_missing_difference("scheduled action", f"{name}: {action}")
            continue
        remedy = f"the action was changed outside CloudFormation; {RESTORE}"
        yield from find_changes(
            "scheduled action", f"{name}: {action}", expected, there[action], remedy
        )
    schedules = {action: there[action]["Schedule"] for action in sorted(there.keys() - planned)}
    remedy = "add it to [variants.NAME.scaling] schedule, or delete it"
    yield from report_added_keys(
        BY_HAND, name, schedules, schedules, remedy, "no such scheduled action"
    )


def _format_resume_command(
    stack: DeployedStack, wanted: Mapping[str, Any], states: Mapping[str, bool]
) -> str:
    """Return the command that resumes the suspended kinds of scaling."""
    resumed = ",".join(f"{key}={str(value).lower()}" for key, value in states.items())
    return (
        "resume it: `aws application-autoscaling register-scalable-target --service-namespace sagemaker "
        f"--resource-id {wanted['ResourceId']} --scalable-dimension {wanted['ScalableDimension']} "
        f"--suspended-state {resumed} --region {stack.account.region}`"
    )


def _is_over(planned: Mapping[str, Any]) -> bool:
    """Return whether an action was scheduled for one moment in the past."""
    once = re.fullmatch(r"at\((.+)\)", str(planned["Schedule"]))
    if once is None:
        return False
    at = datetime.fromisoformat(once[1])
    return at.replace(tzinfo=ZoneInfo(planned.get("Timezone", "UTC"))) < datetime.now(UTC)


def _find_manual_scaling(stack: DeployedStack, wanted: set[str]) -> Iterator[Difference]:
    """Yield a difference for each scalable target that the environment file doesn't configure."""
    (endpoint,) = stack.find_resources("AWS::SageMaker::Endpoint")
    name = endpoint.properties["EndpointName"]
    registered = stack.account.iterate_items(
        "application-autoscaling",
        "describe_scalable_targets",
        "ScalableTargets",
        ServiceNamespace="sagemaker",
    )
    for target in registered:
        resource = target["ResourceId"]
        if resource.startswith(f"endpoint/{name}/variant/") and resource not in wanted:
            remedy = "add [variants.NAME.scaling] to the file, or deregister it"
            yield from report_added_keys(
                BY_HAND, resource, target, ["MaxCapacity"], remedy, "no scaling"
            )
