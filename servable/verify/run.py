"""Is what is live what was deployed? From the file to CloudFormation, and from there to what runs."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from infra.parameters.loading import Loaded, load
from model_packaging.refusal import PackagingError
from servable.aws_account import Account, AwsError
from servable.plan.synthesis import SynthesisedStack, stack_name, synthesised
from servable.verify import (
    alarms,
    dependencies,
    endpoint,
    golden,
    latency,
    model,
    patching,
    scaling,
    stack,
)
from servable.verify.deployed import Deployed, deployed
from servable.verify.difference import Difference, Report

__all__ = ["Difference", "Report", "compare", "verify"]

MAIN = "endpoint"
# Nothing of an endpoint is asked after one of these.
UNCOMPARED = ("endpoint missing", endpoint.COMPONENTS)
Said = Iterator[Difference]


def verify(loaded: Loaded, folder: Path, account: Account, *, invoke: bool = True) -> Report:
    """Everything that differs. `loaded`: with the overrides that are meant to be in force.

    `folder`: of the environment files. `invoke`: whether the golden request is sent.
    Raises `PackagingError` where the account cannot be asked or the file is refused.
    """
    account.meant()
    try:
        # What is in force decides what the file stands for; overrides that nobody meant are
        # told of on their own, once, and not again as everything that follows from them.
        name = stack_name(loaded)
        live = deployed(account, name)
        in_force = live.overrides if live else loaded.overrides
        stacks = synthesised(loaded, folder, in_force)
        again = _loaded(loaded, folder, in_force)
        return compare(again, stacks, account, meant=loaded.overrides, invoke=invoke)
    except AwsError as wrong:
        problem = f"could not be asked: {wrong}"
        raise PackagingError(Path("AWS"), problem, "look at the credentials' permissions") from None


def compare(
    loaded: Loaded,
    stacks: list[SynthesisedStack],
    account: Account,
    *,
    meant: Mapping[str, str],
    invoke: bool = True,
) -> Report:
    """`stacks`: what the file stands for, with the overrides in force."""
    report = Report(environment=loaded.name)
    environment = loaded.environment
    assert environment is not None  # synthesis has refused it otherwise
    for one in stacks:
        live = deployed(account, one.name)
        if live is None:
            report.differences.append(stack.not_deployed(one, loaded.name))
            continue
        report.differences += [*stack.status(live), *stack.template(one, live)]
        report.differences += dependencies.look(live)
        if one.kind == MAIN:
            report.differences += stack.overrides(live, meant)
            report.differences += _endpoint(live, loaded, account, report, invoke)
            if not any(each.kind in UNCOMPARED for each in report.differences):
                report.patchable = patching.verdict(live, report.differences)
    return report


def _endpoint(
    live: Deployed, loaded: Loaded, account: Account, report: Report, invoke: bool
) -> Said:
    environment, note = loaded.environment, report.notes.append
    assert environment is not None  # as above
    found = list(endpoint.look(live))
    yield from found
    for one in endpoint.fleets(live):
        note(one)
    yield from scaling.look(live)
    yield from alarms.look(live)
    yield from model.archives(live, loaded, note)
    yield from model.patched_images(live, environment, note)
    if any(one.kind in UNCOMPARED for one in found):
        return
    if invoke:
        yield from golden.look(account, environment, loaded.root, note)
    yield from latency.look(account, environment, report.measured, note)


def _loaded(loaded: Loaded, folder: Path, overrides: Mapping[str, str]) -> Loaded:
    found = load(loaded.root, folder, {loaded.name: overrides})
    again = next(one for one in found if one.name == loaded.name)
    if again.environment is None:
        problem = "; ".join(str(one) for one in again.findings)
        raise PackagingError(
            Path(loaded.file), f"does not load with what is in force: {problem}", "mend it"
        )
    return again
