"""Scaling: registered, with its bounds and target, and not suspended."""

from collections.abc import Iterator

from operations.verify.deployed import Deployed
from operations.verify.difference import Difference
from operations.verify.endpoint import TARGET, changed, gone

POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"


def look(stack: Deployed) -> Iterator[Difference]:
    scaling = stack.account.client("application-autoscaling")
    targets = list(stack.of(TARGET))
    if not targets:
        return
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
        remedy = "somebody registered it anew: deploy again"
        yield from changed("scaling bounds", name, bounds, found[0], remedy)
        for key, suspended in (found[0].get("SuspendedState") or {}).items():
            if suspended and not wanted.get("SuspendedState", {}).get(key):
                yield Difference(
                    kind="scaling suspended",
                    resource=name,
                    key=key,
                    wanted=False,
                    found=True,
                    remedy="resume it with RegisterScalableTarget, or deploy again",
                )
    for one in stack.of(POLICY):
        wanted = one.properties
        # Ref of a scalable target is RESOURCE|DIMENSION|NAMESPACE.
        name = wanted["PolicyName"]
        found = [
            policy
            for policy in stack.account.pages(
                "application-autoscaling",
                "describe_scaling_policies",
                "ScalingPolicies",
                ServiceNamespace="sagemaker",
                PolicyNames=[name],
            )
            if policy["PolicyName"] == name
        ]
        if not found:
            yield gone("scaling policy", name)
            continue
        key = "TargetTrackingScalingPolicyConfiguration"
        remedy = "somebody put another policy: deploy again"
        yield from changed("scaling policy", name, {key: wanted.get(key, {})}, found[0], remedy)
