"""Compares the environment file with CloudFormation, and CloudFormation with what runs."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from infra.parameters.loading import ValidFile, load
from model_packaging.refusal import PackagingError
from servable.plan.synthesis import SynthesisedStack, stack_name, synthesised
from servable.project.account import Account, AwsError
from servable.verify import (
    alarms,
    dependencies,
    endpoint,
    golden,
    latency,
    model,
    patching,
    roles,
    scaling,
    stack,
)
from servable.verify.deployed import DeployedStack, deployed
from servable.verify.difference import Difference, Report

__all__ = ["Difference", "Report", "compare", "verify"]

MAIN = "endpoint"
# Nothing of an endpoint is asked after one of these.
UNCOMPARED = ("endpoint missing", endpoint.COMPONENTS)


def verify(loaded: ValidFile, folder: Path, account: Account, *, invoke: bool = True) -> Report:
    """Return every difference. `loaded`: with the overrides that should be in force.

    `folder`: the folder of the environment files. `invoke`: whether to send the golden request.
    Raises `PackagingError` if the account cannot be read or the file has errors.
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
        problem = f"what is live cannot be read: {wrong}"
        raise PackagingError(
            Path("AWS"), problem, "check the credentials and their permissions"
        ) from None


def compare(
    loaded: ValidFile,
    stacks: list[SynthesisedStack],
    account: Account,
    *,
    meant: Mapping[str, str],
    invoke: bool = True,
) -> Report:
    """Compare stacks with what is live. `stacks`: synthesised with the overrides in force."""
    answers = bool(loaded.environment.variants)
    report = Report(environment=loaded.name, invoke=invoke and answers)
    if not answers:
        report.notes.append("there is no endpoint: nothing answers a golden request")
    for synthesised_stack in stacks:
        live = deployed(account, synthesised_stack.name)
        if live is None:
            remedy, name = f"`cdk deploy '{loaded.name}/*'`", synthesised_stack.name
            absent = Difference(kind="not deployed", resource=name, remedy=remedy)
            report.add([absent])
            continue
        report.add([*stack.status(live), *stack.template(synthesised_stack, live)])
        report.add(dependencies.look(live))
        report.add(roles.look(live))
        if synthesised_stack.kind == MAIN:
            report.add(stack.overrides(live, meant))
            report.add(_endpoint(live, loaded, account, report))
            compared = all(each.kind not in UNCOMPARED for each in report.differences)
            if compared and loaded.environment.variants:
                report.patchable = patching.verdict(live, report.differences)
    return report


def _endpoint(
    live: DeployedStack, loaded: ValidFile, account: Account, report: Report
) -> Iterator[Difference]:
    environment, note = loaded.environment, report.notes.append
    differences = list(endpoint.look(live))
    yield from differences
    yield from endpoint.batch_models(live)
    for sentence in endpoint.fleets(live):
        note(sentence)
    if environment.variants:
        yield from scaling.look(live)
    yield from alarms.look(live)
    yield from model.archives(live, loaded, note)
    yield from model.patched_images(live, environment, note)
    if any(each.kind in UNCOMPARED for each in differences) or not environment.variants:
        return
    if report.invoke:
        yield from golden.look(account, environment, report)
    yield from latency.look(account, environment, report.measured, note)


def _loaded(loaded: ValidFile, folder: Path, overrides: Mapping[str, str]) -> ValidFile:
    environments = load(loaded.root, folder, {loaded.name: overrides})
    again = next(environment for environment in environments if environment.name == loaded.name)
    if not isinstance(again, ValidFile):
        problem = "; ".join(str(finding) for finding in again.findings)
        raise PackagingError(
            Path(loaded.file), f"does not load with what is in force: {problem}", "mend it"
        )
    return again
