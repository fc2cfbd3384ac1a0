"""Scaling: registered, with its bounds and target, and not suspended."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from servable.verify.deployed import Deployed, Resource
from servable.verify.difference import Difference, added, changed, gone
from servable.verify.endpoint import TARGET, planned_actions

_SHAPES = ("TargetTrackingScalingPolicyConfiguration", "StepScalingPolicyConfiguration")
POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
BY_HAND = "scaling by hand"


def look(stack: Deployed) -> Iterator[Difference]:
    scaling = stack.account.client("application-autoscaling")
    targets = list(stack.of(TARGET))
    yield from _by_hand(stack, {one.properties["ResourceId"] for one in targets})
    for one in targets:
        wanted = one.properties
        name = wanted["ResourceId"]
        found = scaling.describe_scalable_targets(
            ServiceNamespace="sagemaker",
            ResourceIds=[name],
            ScalableDimension=wanted["ScalableDimension"],
        )["ScalableTargets"]
        if not found:
            yield gone("scaling target", name)
            continue
        bounds = {key: wanted[key] for key in ("MinCapacity", "MaxCapacity")}
        planned = [each.get("ScalableTargetAction", {}) for each in planned_actions(wanted)]
        # A schedule moves the bounds: those of any of its actions are as deployed.
        for key in bounds:
            if found[0].get(key) in [each.get(key) for each in planned]:
                bounds[key] = found[0][key]
        remedy = "somebody registered it anew: deploy again"
        yield from changed("scaling bounds", name, bounds, found[0], remedy)
        suspended, meant = (one.get("SuspendedState") or {} for one in (found[0], wanted))
        resumed = {key: False for key, now in suspended.items() if now and not meant.get(key)}
        remedy = "resume it with RegisterScalableTarget, or deploy again"
        yield from changed("scaling suspended", name, resumed, suspended, remedy)
        yield from _schedule(stack, wanted)
    yield from _policies(stack, targets)


def _policies(stack: Deployed, targets: list[Resource]) -> Iterator[Difference]:
    """Each of the template's, and none beside them: two on one metric pull against each other."""
    ours: set[tuple[str, str]] = set()
    there = {
        (policy["ResourceId"], policy["PolicyName"]): policy
        for one in targets
        for policy in stack.account.pages(
            "application-autoscaling",
            "describe_scaling_policies",
            "ScalingPolicies",
            ServiceNamespace="sagemaker",
            ResourceId=one.properties["ResourceId"],
        )
    }
    for one in stack.of(POLICY):
        wanted = one.properties
        # Ref of a scalable target is RESOURCE|DIMENSION|NAMESPACE.
        name = (str(wanted["ScalingTargetId"]).partition("|")[0], wanted["PolicyName"])
        ours.add(name)
        if name not in there:
            yield gone("scaling policy", name[1])
            continue
        shape = {key: wanted[key] for key in _SHAPES if key in wanted}
        remedy = "somebody put another policy: deploy again"
        yield from changed("scaling policy", name[1], shape, there[name], remedy)
    for resource, name in sorted(there.keys() - ours):
        types = {name: there[resource, name]["PolicyType"]}
        remedy = "write it into [variants.NAME.scaling], or delete it (DeleteScalingPolicy)"
        yield from added(BY_HAND, resource, types, types, remedy, "no such policy")


def _schedule(stack: Deployed, wanted: Mapping[str, Any]) -> Iterator[Difference]:
    """A planned capacity that is not there is missed on the morning that it was for."""
    name = wanted["ResourceId"]
    there = {
        one["ScheduledActionName"]: one
        for one in stack.account.pages(
            "application-autoscaling",
            "describe_scheduled_actions",
            "ScheduledActions",
            ServiceNamespace="sagemaker",
            ResourceId=name,
        )
    }
    planned = {one["ScheduledActionName"]: one for one in planned_actions(wanted)}
    for action, told in planned.items():
        if action not in there:
            if not _over(told):
                yield gone("scheduled action", f"{name}: {action}")
            continue
        remedy = "somebody put another: deploy again"
        yield from changed("scheduled action", f"{name}: {action}", told, there[action], remedy)
    schedules = {action: there[action]["Schedule"] for action in sorted(there.keys() - planned)}
    remedy = "write it into [variants.NAME.scaling] schedule, or delete it"
    yield from added(BY_HAND, name, schedules, schedules, remedy, "no such scheduled action")


def _over(planned: Mapping[str, Any]) -> bool:
    """Whether it was meant for one moment, which is past."""
    once = re.fullmatch(r"at\((.+)\)", str(planned["Schedule"]))
    if once is None:
        return False
    at = datetime.fromisoformat(once[1])
    return at.replace(tzinfo=ZoneInfo(planned.get("Timezone", "UTC"))) < datetime.now(UTC)


def _by_hand(stack: Deployed, wanted: set[str]) -> Iterator[Difference]:
    """Scaling of a variant whose file asks for none: its count is then not the file's."""
    (endpoint,) = stack.of("AWS::SageMaker::Endpoint")
    name = endpoint.properties["EndpointName"]
    found = stack.account.pages(
        "application-autoscaling",
        "describe_scalable_targets",
        "ScalableTargets",
        ServiceNamespace="sagemaker",
    )
    for one in found:
        resource = one["ResourceId"]
        if resource.startswith(f"endpoint/{name}/variant/") and resource not in wanted:
            remedy = "write [variants.NAME.scaling] into the file, or deregister it"
            yield from added(BY_HAND, resource, one, ["MaxCapacity"], remedy, "no scaling")
