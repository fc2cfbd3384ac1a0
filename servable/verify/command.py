"""`servable verify ENV`: compare its file with CloudFormation, and CloudFormation with AWS."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from infra.parameters.environment import build_stack_name
from infra.parameters.loading import ValidFile, load
from infra.preflight.check import check, select_errors
from model_packaging.refusal import PackagingError
from servable.console.findings import echo_styled
from servable.plan.synthesis import SynthesisedStack, synthesise_stacks
from servable.project.account import Account, AwsError, open_account
from servable.project.completion import ENVIRONMENT
from servable.project.environments import Project, find_environment, pass_project
from servable.verdict import EXIT_CODES
from servable.verify import alarms, dependencies, endpoint, golden, model, scaling
from servable.verify.dependencies import BOUNDARY, PERMISSIONS, POLICY, ROLE, TRUST
from servable.verify.deployed import UNKNOWN, DeployedStack, Properties, read_stack
from servable.verify.difference import DEPLOY, KEEP, Difference, Report, find_unequal
from servable.verify.golden import KIND as GOLDEN
from servable.verify.golden import NO_ANSWER


@click.command()
@ENVIRONMENT
@pass_project
@click.option("--local", is_flag=True, help="Use the local AWS (`servable local up`).")
@click.option("--no-invoke", is_flag=True, help="Do not send the golden request.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(project: Project, environment: str, local: bool, no_invoke: bool, as_json: bool) -> int:
    """List every difference between ENV's file, CloudFormation and what runs.

    Exit 0: as deployed, and every variant gave a known answer to a golden request; 1: a difference; 3: as
    deployed, but no answer was compared. With --no-invoke, 0 without invoking.
    """
    loaded = project.load_valid(environment)
    try:
        account = open_account(loaded.environment, local=local)
        report = compare_environment(loaded, project.files, account, invoke=not no_invoke)
    except PackagingError as wrong:
        click.echo(f"servable verify: {wrong}", err=True)
        return 2
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2, default=str))
    else:
        _print_report(report)
    return EXIT_CODES[report.verdict]


def _print_report(report: Report) -> None:
    click.echo(f"{report.environment}  {report.summary}")
    for variant, measured in report.measured.items():
        minutes, alarm_ms = measured["minutes"], measured["alarm_ms"]
        limit = "no alarm" if alarm_ms is None else f"alarm at {alarm_ms:g} ms"
        span = "the first minute" if minutes == 1 else f"the slowest of the first {minutes} minutes"
        click.echo(f"  {variant}: p99 {measured['p99_latency_ms']:g} ms in {span}; {limit}")
    if report.patchable is not None:
        click.echo(f"  AWS can patch this endpoint: {report.patchable}")
    for note in report.notes:
        echo_styled(f"  note: {note}", dim=True)
    for difference in report.differences:
        echo_styled(str(difference), fg="red", err=True)


def compare_environment(
    loaded: ValidFile, folder: Path, account: Account, *, invoke: bool = True
) -> Report:
    """Return every difference between the file, CloudFormation, and the deployed resources.

    `loaded`: with the overrides that should be in force. `folder`: the folder of the environment
    files. `invoke`: whether to send the golden request. Raises `PackagingError` if the account
    can't be read or the file has errors.
    """
    account.check_credentials()
    try:
        # The file is compared with the overrides in force: an unintended override is one difference,
        # without all that follow from it.
        live = read_stack(account, build_stack_name(loaded.name, loaded.environment, "endpoint"))
        in_force = live.overrides if live else loaded.overrides
        again = _load_with_overrides(loaded, folder, in_force)
        stacks = synthesise_stacks(again)
        return compare_stacks(again, stacks, account, meant=loaded.overrides, invoke=invoke)
    except AwsError as wrong:
        problem = f"cannot read the deployed resources: {wrong}"
        remedy = "check the credentials and their permissions"
        raise PackagingError(Path("AWS"), problem, remedy) from None


def compare_stacks(
    loaded: ValidFile,
    stacks: list[SynthesisedStack],
    account: Account,
    *,
    meant: Mapping[str, str],
    invoke: bool = True,
) -> Report:
    """Compare stacks with the deployed resources. `stacks`: synthesized with the overrides in force."""
    answers = bool(loaded.environment.variants)
    report = Report(environment=loaded.name, invoke=invoke and answers)
    if not answers:
        report.notes.append("there is no endpoint, so no golden request was sent")
    for synthesised_stack in stacks:
        live = read_stack(account, synthesised_stack.name)
        if live is None:
            report.add([Difference("not deployed", synthesised_stack.name, DEPLOY)])
            continue
        report.add([*check_status(live), *compare_template(synthesised_stack, live)])
        report.add(dependencies.compare_dependencies(live))
        if synthesised_stack.kind == "endpoint":
            report.add(compare_overrides(live, meant))
            _compare_endpoint(live, loaded, report)
    return report


def _compare_endpoint(live: DeployedStack, loaded: ValidFile, report: Report) -> None:
    environment, account = loaded.environment, live.account
    report.add(endpoint.compare_endpoints(live))
    # After one of these differences, an endpoint isn't invoked.
    uncompared = ("endpoint missing", endpoint.COMPONENTS)
    compared = all(each.kind not in uncompared for each in report.differences)
    report.add(endpoint.compare_batch_models(live))
    if environment.variants:
        report.add(scaling.compare_scaling(live))
    report.add(alarms.compare_alarms(live))
    report.add(model.compare_archives(live, loaded))
    report.add(model.check_image_patches(live, environment))
    if not compared or not environment.variants:
        return
    if report.invoke:
        report.add(golden.compare_responses(account, environment, report))
    report.add(alarms.compare_latency(account, environment, report.measured))
    report.patchable = describe_patching(live, report.differences)


def _load_with_overrides(
    loaded: ValidFile, folder: Path, overrides: Mapping[str, str]
) -> ValidFile:
    environments = load(loaded.root, folder, {loaded.name: overrides})
    again = find_environment(environments, loaded.name)
    wrong = select_errors(check(again))
    if wrong or not isinstance(again, ValidFile):
        problem = f"has errors with the deployed overrides: {'; '.join(map(str, wrong))}"
        raise PackagingError(Path(loaded.file), problem, "correct the file")
    return again


def check_status(deployed: DeployedStack) -> Iterator[Difference]:
    """Yield a difference if the stack isn't stable, for example after a rollback."""
    status, remedy = deployed.status, "wait until it has finished"
    if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"):
        return
    if not status.endswith("_IN_PROGRESS"):
        why = deployed.find_rollback_reason()
        remedy = f"the reason: {why}; fix it and deploy, or keep what runs: {KEEP}"
    yield Difference("stack status", deployed.name, remedy, "", "UPDATE_COMPLETE", status)


def compare_overrides(deployed: DeployedStack, meant: Mapping[str, str]) -> Iterator[Difference]:
    """Yield overrides in force that `meant` lacks, and those of `meant` not in force."""
    for key in sorted({*deployed.overrides, *meant}):
        there, wanted = deployed.overrides.get(key), meant.get(key)
        if there == wanted:
            continue
        if wanted is None:
            intended = "if it is intended, pass `--set`"
            remedy = f"deploy without it: {DEPLOY}, or add it to the file; {intended}"
        else:
            option = shlex.quote(f"{{environment}}.{key}={wanted}")
            remedy = f"deploy with it: `cdk deploy '{{environment}}/*' -c {option}`"
        sides = (wanted or "without it", there or "without it")
        yield Difference("override", deployed.name, remedy, key, *sides)


def compare_template(stack: SynthesisedStack, deployed: DeployedStack) -> Iterator[Difference]:
    """Yield differences between the file's template and the deployed template.

    Differences that only result from others (`_rank_consequence`) are left out next to them, so
    that a changed number is reported once.
    """
    wanted, actual = stack.template["Resources"], deployed.template["Resources"]
    remedy = f"deploy it: {DEPLOY}; `cdk diff '{{environment}}/*'` shows the change first"
    ranked = [
        (
            _rank_consequence(wanted.get(logical) or actual[logical], path),
            Difference("not as in the file", f"{deployed.name}/{logical}", remedy, path, *sides),
        )
        for logical in sorted({*wanted, *actual})
        for path, sides in _find_leaves(wanted.get(logical), actual.get(logical)).items()
    ]
    first = min((rank for rank, _ in ranked), default=0)
    yield from (difference for rank, difference in ranked if rank == first)


def _rank_consequence(resource: Mapping[str, Any], path: str) -> int:
    """Return how indirectly a difference results from others.

    0: a setting; 1: an alarm's text, which contains the setting; 2: a dashboard; 3: the record's
    fingerprint.
    """
    if path.endswith("AlarmDescription"):
        return 1
    return {"AWS::CloudWatch::Dashboard": 2, "AWS::SSM::Parameter": 3}.get(resource["Type"], 0)


def _find_leaves(
    wanted: Properties | None, actual: Properties | None
) -> dict[str, tuple[Any, Any]]:
    """Return (wanted, actual) of each leaf that differs, by its path."""
    if wanted is None or actual is None:
        return {"": ("there" if wanted else "not there", "there" if actual else "not there")}
    a, b = ({k: v for k, v in side.items() if k != "Metadata"} for side in (wanted, actual))
    leaves = {path: (meant, there) for path, meant, there in find_unequal(a, b)}
    return leaves | {path: (meant, there) for path, there, meant in find_unequal(b, a)}


# Kinds of differences that keep AWS from patching an endpoint. AWS's notice names four reasons:
# https://github.com/ministryofjustice/analytical-platform/issues/9863 (2026-11-22)
_UNPATCHABLE = {
    "endpoint configuration missing": "configuration",
    **dict.fromkeys(("model missing", "artefact missing", "artefact changed"), "model"),
    **dict.fromkeys(("IAM Role missing", "IAM Policy missing"), "execution role"),
    **dict.fromkeys(("policy on role missing", TRUST, PERMISSIONS, BOUNDARY), "execution role"),
    **dict.fromkeys(("endpoint status", GOLDEN), "health"),
}
# Neither is known before a container starts.
_NOT_SEEN = (
    "whether the image is still in its registry and whether a new container starts isn't checked"
)


def describe_patching(stack: DeployedStack, differences: Iterable[Difference]) -> str:
    """Return whether AWS can patch the endpoint by itself, as a sentence.

    It is "yes, …" followed by what wasn't checked, or "no, because …" with every reason.
    """
    # The names of the models' execution roles.
    models = stack.find_resources(endpoint.MODEL)
    arns = [str(each.properties.get("ExecutionRoleArn", UNKNOWN)) for each in models]
    roles = {arn.rsplit("/", 1)[-1] for arn in arns if arn != UNKNOWN}
    inline = stack.find_resources(POLICY)
    policies = {each.name for each in inline if roles & {*each.properties.get("Roles", [])}}
    reasons = []
    for difference in differences:
        if difference.kind == GOLDEN and difference.wanted != NO_ANSWER:
            continue  # the container responds, so that its health isn't in doubt
        about = _UNPATCHABLE.get(difference.kind)
        # The resource is ROLE, ROLE/POLICY, or ROLE: ARN.
        mine = re.split("[/:]", difference.resource)[0] in roles or difference.resource in policies
        if about is not None and (about != "execution role" or mine):
            reasons.append(f"{about}: {difference.kind} ({difference.resource})")
    if reasons:
        return f"no, because of its {'; '.join(dict.fromkeys(reasons))}"
    own = {role.physical for role in stack.find_resources(ROLE)}
    unseen = [f"nor is {role}, which isn't in this stack" for role in sorted(roles - own)]
    return "; ".join(["yes, as far as can be seen from outside", _NOT_SEEN, *unseen])
