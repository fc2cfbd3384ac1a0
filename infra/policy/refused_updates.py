"""The updates of an endpoint that SageMaker refuses, with the source and the remedy.

`servable plan` and the rules change-* of `servable check --against` use this table.
Sources were read on 2026-11-22.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DeployedVariant:
    instance_type: str | None
    """The (preferred) instance type; None for a serverless variant."""
    scales: bool
    """Whether it is a scalable target of Application Auto Scaling."""
    shadow: bool = False
    pools: tuple[str, ...] = ()
    """All instance types in order of preference, if there are several."""

    @property
    def runs_on(self) -> str:
        """The instance types in words."""
        return ", else ".join(self.pools) or self.instance_type or "serverless"


Variants = Mapping[str, DeployedVariant]


@dataclass(frozen=True, kw_only=True)
class EndpointState:
    """The properties of an endpoint that determine which updates SageMaker accepts."""

    variants: Variants
    queued: bool
    """Whether it is asynchronous."""
    guarded: bool = False
    """Whether the update to this state has a deployment configuration ([rollout])."""


@dataclass(frozen=True, kw_only=True)
class RefusedUpdate:
    """A kind of change that SageMaker refuses. `id` is that of its preflight rule."""

    id: str
    source: str
    problems: Callable[[EndpointState, EndpointState], dict[str, str]]
    """Takes the live state and the next one; returns variant to problem. The key is "" for the whole
    endpoint; the result is empty if the change is not made."""
    way: str
    """The remedy."""
    two_deploys: bool = False
    """Whether a deploy with `scaling.hold` before the change is enough, which `servable plan` prints."""

    def remedy(self, name: str) -> str:
        """Return what to do in the environment of this name."""
        return self.way.replace("{name}", name)


_SCALED = (
    "https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html (2026-11-22)"
)
_SERVERLESS = (
    "https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints-update.html (2026-11-22)"
)
_GUARDRAILS = "https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-exclusions.html (2026-11-22)"  # noqa: E501
_BESIDE = (
    "deploy another environment beside it (`servable init --from {name} --name {name}-next`), move the "
    "callers, then destroy this one (`cdk destroy '{name}/*'`)"
)


def _async_removed(old: EndpointState, new: EndpointState) -> dict[str, str]:
    if not old.queued or new.queued:
        return {}
    return {"": "SageMaker does not take asynchronous inference away from an endpoint"}


def _instances_to_serverless(old: EndpointState, new: EndpointState) -> dict[str, str]:
    serverless = [name for name, variant in new.variants.items() if variant.instance_type is None]
    if not serverless or all(variant.instance_type is None for variant in old.variants.values()):
        return {}
    return {
        name: f"SageMaker does not make variant {name} serverless: the endpoint runs on instances"
        for name in serverless
    }


def _variants_under_rollout(old: EndpointState, new: EndpointState) -> dict[str, str]:
    if not new.guarded or not old.variants:
        return {}
    # The page does not mention shadow variants.
    before = {name for name, variant in old.variants.items() if not variant.shadow}
    after = {name for name, variant in new.variants.items() if not variant.shadow}
    if before == after:
        return {}
    what = [f"{name} goes" for name in sorted(before - after)]
    what += [f"{name} is new" for name in sorted(after - before)]
    return {"": f"with [rollout] variants keep their names: {', '.join(what)}"}


def _type_while_scaled(old: EndpointState, new: EndpointState) -> dict[str, str]:
    return {
        name: f"variant {name} is scaled: SageMaker does not change {was.runs_on} to "
        f"{new.variants[name].runs_on} in one update"
        for name, was in old.variants.items()
        if was.scales
        and name in new.variants
        and new.variants[name].runs_on != was.runs_on
        and new.variants[name].instance_type is not None  # serverless: a row of its own
    }


def _removed_while_scaled(old: EndpointState, new: EndpointState) -> dict[str, str]:
    return {
        name: f"variant {name} is scaled: SageMaker does not remove it in one update"
        for name, was in old.variants.items()
        if was.scales and name not in new.variants
    }


REFUSED_UPDATES = (
    RefusedUpdate(
        id="change-async-removed",
        source="https://github.com/aws/sagemaker-python-sdk/pull/3124 (2026-11-22): SageMaker's own "
        "message; no page of the guide states it",
        problems=_async_removed,
        way=_BESIDE,
    ),
    RefusedUpdate(
        id="change-instances-to-serverless",
        source=_SERVERLESS,
        problems=_instances_to_serverless,
        way=_BESIDE,
    ),
    RefusedUpdate(
        id="change-variants-under-rollout",
        source=_GUARDRAILS,
        problems=_variants_under_rollout,
        way="take [rollout] out for this deploy, which then goes all at once and unwatched, and put "
        "it back after",
    ),
    RefusedUpdate(
        id="change-type-while-scaled",
        source=_SCALED,
        problems=_type_while_scaled,
        way="first scaling.hold = true with the type that is live, then the other type",
        two_deploys=True,
    ),
    RefusedUpdate(
        id="change-variant-removed-while-scaled",
        source=_SCALED,
        problems=_removed_while_scaled,
        way="first scaling.hold = true, then take the variant out",
        two_deploys=True,
    ),
)


def refused_update(rule: str) -> RefusedUpdate:
    """The row of a rule. Raises KeyError."""
    return {update.id: update for update in REFUSED_UPDATES}[rule]
