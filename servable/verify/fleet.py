"""The variants that run: their weights, and their counts where no scaling owns them."""

from collections.abc import Iterator, Mapping
from typing import Any

from servable.verify.comparison import same
from servable.verify.deployed import Deployed
from servable.verify.difference import Difference

TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
KINDS = ("ProductionVariants", "ShadowProductionVariants")
Variant = Mapping[str, Any]


def look(stack: Deployed, live: Mapping[str, Any]) -> Iterator[Difference]:
    """`live`: as DescribeEndpoint has it."""
    scaled = {one.properties["ResourceId"].split("/")[-1]: one for one in stack.of(TARGET)}
    (config,) = stack.of("AWS::SageMaker::EndpointConfig")
    there = {one["VariantName"]: one for kind in KINDS for one in live.get(kind) or []}
    for kind in KINDS:
        for one in config.properties.get(kind) or []:
            variant = one["VariantName"]
            if variant not in there:
                continue  # told of with the configuration
            name = f"{live['EndpointName']}/{variant}"
            target = scaled[variant].properties if variant in scaled else None
            yield from _weight(name, one, there[variant])
            yield from _count(name, one, there[variant], target)


def _weight(name: str, wanted: Variant, now: Variant) -> Iterator[Difference]:
    if not same(wanted["InitialVariantWeight"], now.get("CurrentWeight")):
        yield Difference(
            kind="drifted weight",
            resource=name,
            key="CurrentWeight",
            wanted=wanted["InitialVariantWeight"],
            found=now.get("CurrentWeight"),
            remedy="deploy again: weights come from the file (UpdateEndpointWeightsAndCapacities)",
        )


def _count(
    name: str, wanted: Variant, now: Variant, target: Mapping[str, Any] | None
) -> Iterator[Difference]:
    """Instances; of a serverless variant, the containers that are kept warm."""
    key, started, count = _counted(wanted, now)
    if started is None and count is None:
        return  # serverless, with none kept warm
    if target is not None:
        least, most = _bounds(target)
    else:
        least = most = int(started or 0)
    if count is None or not least <= count <= most:
        yield Difference(
            kind="drifted count",
            resource=name,
            key=key,
            wanted=least if least == most else f"{least} to {most}",
            found=count,
            remedy="set it back with UpdateEndpointWeightsAndCapacities, or deploy"
            if target is None
            else "scaling has not brought it back: look at its activities",
        )


def _counted(wanted: Variant, now: Variant) -> tuple[str, int | None, int | None]:
    """(what is counted, as the configuration starts it, as it is now)"""
    if "ServerlessConfig" in wanted:
        serverless = now.get("CurrentServerlessConfig") or {}
        key = "ProvisionedConcurrency"
        return key, wanted["ServerlessConfig"].get(key), serverless.get(key)
    return "CurrentInstanceCount", wanted["InitialInstanceCount"], now.get("CurrentInstanceCount")


def _bounds(target: Mapping[str, Any]) -> tuple[int, int]:
    planned = [each.get("ScalableTargetAction", {}) for each in planned_actions(target)]
    every = [target, *planned]
    least = min(int(each["MinCapacity"]) for each in every if "MinCapacity" in each)
    most = max(int(each["MaxCapacity"]) for each in every if "MaxCapacity" in each)
    return least, most


def planned_actions(target: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Scheduled actions, which move a scaling target's bounds as they were meant to."""
    found: list[Mapping[str, Any]] = target.get("ScheduledActions") or []
    return found
