"""Scaling: registered, with its bounds and target, and not suspended."""

from collections.abc import Iterator

from operations.verify.deployed import Deployed
from operations.verify.difference import Difference
from operations.verify.endpoint import TARGET, changed, gone, planned_actions

_SHAPES = ("TargetTrackingScalingPolicyConfiguration", "StepScalingPolicyConfiguration")
POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"


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
        shape = {key: wanted[key] for key in _SHAPES if key in wanted}
        remedy = "somebody put another policy: deploy again"
        yield from changed("scaling policy", name, shape, found[0], remedy)


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
            yield Difference(
                kind="scaling by hand",
                resource=resource,
                key="MaxCapacity",
                wanted="no scaling",
                found=one["MaxCapacity"],
                remedy="write [variants.NAME.scaling] into the file, or deregister it",
            )
