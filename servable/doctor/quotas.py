"""Quotas: an update runs two fleets, and each may be at its maximum."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.policy.sizing import instances_during_update
from servable.aws_account import Account
from servable.doctor.look import Look, judged


def needed(environment: Environment) -> dict[str, int]:
    """Instance type -> instances at once, while an update replaces a fleet at its maximum."""
    rollout = environment.rollout
    rolling = rollout.batch_percent if rollout and rollout.strategy == "rolling" else None
    found: dict[str, int] = {}
    for one in environment.variants.values():
        if one.instance_type is None:
            continue  # serverless has a quota of its own
        _, most = one.planned_capacity
        count = instances_during_update(most, rolling_percent=rolling)
        found[one.instance_type] = found.get(one.instance_type, 0) + count
    return found


def quotas(environment: Environment, asked: Account) -> Iterator[Look]:
    """Of the account, shared with every other endpoint in it."""
    if asked.embedded:
        yield Look(name="quotas", state="open", said="the embedded AWS has none")
        return
    there = {
        # What was never raised is not among the applied ones: then AWS's own default holds.
        **_values(asked, "list_aws_default_service_quotas"),
        **_values(asked, "list_service_quotas"),
    }
    for kind, count in needed(environment).items():
        name = f"{kind} for endpoint usage"
        value = there.get(name)
        wanted = f"{count} at once, both fleets of an update at max_instances"
        if value is None:
            said = f"service-quotas does not list {name!r}; needed {wanted}"
            yield Look(name=f"quota of {kind}", state="open", said=said, mend="look in the console")
            continue
        mend = f"ask for {count} of {name!r} in Service Quotas, or lower max_instances"
        said = f"{value:g}, for all endpoints together; needed {wanted}"
        yield judged(f"quota of {kind}", value >= count, said, mend)
    if concurrent := _concurrent(environment):
        said = f"not asked, its name is not known here; needed {concurrent} requests at once"
        mend = "look at SageMaker's serverless concurrency in the Service Quotas console"
        yield Look(name="quota of serverless", state="open", said=said, mend=mend)


def _values(asked: Account, operation: str) -> dict[str, float]:
    found = asked.pages("service-quotas", operation, "Quotas", ServiceCode="sagemaker")
    return {one["QuotaName"]: float(one["Value"]) for one in found}


def _concurrent(environment: Environment) -> int:
    every = [one.serverless for one in environment.variants.values()]
    return sum(one.max_concurrency for one in every if one is not None)
