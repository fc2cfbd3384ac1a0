"""Compares the file with CloudFormation: stack status, overrides and template."""

from collections.abc import Iterator, Mapping
from typing import Any

from servable.plan.synthesis import SynthesisedStack
from servable.verify.deployed import DeployedStack
from servable.verify.difference import Difference, unequal

_AT_REST = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE")


def status(deployed: DeployedStack) -> Iterator[Difference]:
    """Yield a stack that is not at rest, for example after a rollback."""
    if deployed.status in _AT_REST:
        return
    moving = deployed.status.endswith("_IN_PROGRESS")
    remedy = "wait until it has finished" if moving else f"the reason: {deployed.reason()}"
    yield Difference(
        kind="stack status",
        resource=deployed.name,
        wanted="UPDATE_COMPLETE",
        found=deployed.status,
        remedy=remedy,
    )


def overrides(deployed: DeployedStack, meant: Mapping[str, str]) -> Iterator[Difference]:
    """Yield overrides in force that `meant` lacks, and overrides of `meant` that are not in force."""
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


def template(stack: SynthesisedStack, deployed: DeployedStack) -> Iterator[Difference]:
    """Yield differences between the file's template and the deployed one.

    What only follows from others (`_follows`) is left out beside them: a changed number is said once.
    """
    wanted, actual = stack.template["Resources"], deployed.template["Resources"]
    leaves = [
        (logical, _follows(wanted.get(logical) or actual[logical], path), (path, value, now))
        for logical in sorted({*wanted, *actual})
        for path, value, now in _leaves(wanted.get(logical), actual.get(logical))
    ]
    first = min((follows for _, follows, _ in leaves), default=0)
    for logical, follows, (path, value, now) in leaves:
        if follows == first:
            yield Difference(
                kind="not as in the file",
                resource=f"{deployed.name}/{logical}",
                key=path,
                wanted=value,
                found=now,
                remedy="`cdk diff`, then deploy",
            )


def _follows(resource: Mapping[str, Any], path: str) -> int:
    """0: a setting; 1: an alarm's text, which names it; 2: a dashboard; 3: the record's fingerprint."""
    if path.endswith("AlarmDescription"):
        return 1
    return {"AWS::CloudWatch::Dashboard": 2, "AWS::SSM::Parameter": 3}.get(resource["Type"], 0)


def _leaves(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> Iterator[tuple[str, Any, Any]]:
    if before is None or after is None:
        yield "", "there" if before else "not there", "there" if after else "not there"
        return
    a, b = ({k: v for k, v in side.items() if k != "Metadata"} for side in (before, after))
    leaves = list(unequal(a, b))
    leaves += [(path, there, wanted) for path, wanted, there in unequal(b, a)]
    seen = set()
    for path, wanted, there in leaves:
        if path not in seen:
            seen.add(path)
            yield path, wanted, there
