"""From the file to CloudFormation: was it deployed, with what, and did it stay?"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from servable.plan.synthesis import SynthesisedStack
from servable.verify.deployed import Deployed
from servable.verify.difference import Difference, unequal

_AT_REST = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE")


def not_deployed(stack: SynthesisedStack, environment: str) -> Difference:
    return Difference(
        kind="not deployed", resource=stack.name, remedy=f"`cdk deploy '{environment}/*'`"
    )


def status(deployed: Deployed) -> Iterator[Difference]:
    """An update that was taken back leaves everything as it was, and says so only here."""
    if deployed.status in _AT_REST:
        return
    moving = deployed.status.endswith("_IN_PROGRESS")
    remedy = "wait until it is through" if moving else f"the reason: {deployed.reason()}"
    yield Difference(
        kind="stack status",
        resource=deployed.name,
        wanted="UPDATE_COMPLETE",
        found=deployed.status,
        remedy=remedy,
    )


def overrides(deployed: Deployed, meant: Mapping[str, str]) -> Iterator[Difference]:
    """Those in force that neither the file nor `meant` has, and those that are not in force."""
    for key in sorted({*deployed.overrides, *meant}):
        there, wanted = deployed.overrides.get(key), meant.get(key)
        if there != wanted:
            yield Difference(
                kind="override",
                resource=deployed.name,
                key=key,
                wanted=wanted or "without it",
                found=there or "without it",
                remedy="write it into the file, or deploy again; `--set` says that it is meant",
            )


def template(stack: SynthesisedStack, deployed: Deployed) -> Iterator[Difference]:
    """What the file stands for now and CloudFormation was not given."""
    wanted, found = stack.template["Resources"], deployed.template["Resources"]
    for logical in sorted({*wanted, *found}):
        for path, value, now in _leaves(wanted.get(logical), found.get(logical)):
            yield Difference(
                kind="not as in the file",
                resource=f"{deployed.name}/{logical}",
                key=path,
                wanted=value,
                found=now,
                remedy="`cdk diff`, then deploy",
            )


def _leaves(
    one: Mapping[str, Any] | None, other: Mapping[str, Any] | None
) -> Iterator[tuple[str, Any, Any]]:
    if one is None or other is None:
        yield "", "there" if one else "not there", "there" if other else "not there"
        return
    a, b = ({k: v for k, v in side.items() if k != "Metadata"} for side in (one, other))
    if json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True):
        return
    found = list(unequal(a, b))
    found += [(path, there, wanted) for path, wanted, there in unequal(b, a)]
    seen = set()
    for path, wanted, there in found:
        if path not in seen:
            seen.add(path)
            yield path, wanted, there
