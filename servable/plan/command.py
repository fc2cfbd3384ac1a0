"""`servable plan ENV`: shows what the next deployment changes, and in how many steps."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding
from infra.parameters.loading import ValidFile
from infra.parameters.placement import list_placements
from infra.preflight.check import check, select_errors
from model_packaging.refusal import PackagingError
from servable.check.explain import Said, list_update_lines
from servable.console.findings import echo_styled, print_findings
from servable.init.adoption.live_snapshot import read_live_snapshot
from servable.init.adoption.live_template import build_live_template, explain_harmless_change
from servable.plan.live import LiveState, read_live_state
from servable.plan.plan import (
    DeployPlan,
    add_old_stack,
    build_plan,
    find_endpoint_conflict,
    find_old_stack,
)
from servable.plan.synthesis import synthesise_endpoint, synthesise_templates
from servable.plan.template_changes import TemplateChange, list_changes
from servable.project.account import Clients, open_account
from servable.project.completion import ENVIRONMENT, revision_option
from servable.project.environments import Project, pass_project, require_endpoint
from servable.project.revision import check_out_revision

LIVE = "what is live"
WORDS = {
    "nothing": "nothing changes",
    "create": "creates the endpoint in one deploy",
    "update": "one deploy",
    "second endpoint": "creates a second endpoint and keeps the first one",
    "two deploys": "two deploys, because SageMaker rejects a single one",
    "replace": "replaces the endpoint",
    "delete": "deletes the endpoint",
    "keep": "keeps the endpoint outside the stack",
    "refused": "refused",
}


@click.command()
@ENVIRONMENT
@revision_option(help="Compare with this git revision instead of the live stack.")
@click.option(
    "--adopt", metavar="NAME", help="Compare with this live endpoint, no matter what created it."
)
@click.option("--local", is_flag=True, help="Compare with the stack in the local AWS.")
@pass_project
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(
    project: Project,
    environment: str,
    against: str | None,
    adopt: str | None,
    local: bool,
    as_json: bool,
) -> int:
    """Show what the next deploy of ENV changes, and the commands for it. Deploys nothing.

    Exit 0: nothing changes, or one deploy is enough; 1: the change needs two deploys, makes a second
    endpoint, deletes the endpoint, or is refused. With --adopt, 1: the file changes something in effect.
    """
    if against and local:
        raise click.UsageError("use either --against or --local, not both")
    if against and adopt:
        raise click.UsageError("use either --against or --adopt, not both")
    loaded = project.load(environment)
    findings = check(loaded)
    if select_errors(findings) or not isinstance(loaded, ValidFile):
        if as_json:
            reasons = [str(finding) for finding in select_errors(findings)]
            refused = DeployPlan(
                environment=loaded.name, against=against or LIVE, verdict="refused", reasons=reasons
            )
            click.echo(json.dumps(_as_object(refused, {}, findings), indent=2, default=str))
        else:
            print_findings({loaded.name: findings})
        return 1
    try:
        if adopt:
            require_endpoint(loaded)
            return print_adoption_plan(loaded, adopt, local=local, as_json=as_json)
        if against:
            now = _build_state_at(against, loaded, project)
            loaded = replace(loaded, against=against)
        else:

            def open_clients(environment: Environment) -> Clients:
                return open_account(environment, local=local).client

            now = read_live_state(loaded, open_clients(loaded.environment))
            now = add_old_stack(now, loaded, project, open_clients)
        made = synthesise_templates(loaded)
    except PackagingError as wrong:
        raise click.ClickException(str(wrong)) from None
    deploy_plan = build_plan(loaded, now, made, against=against or LIVE, folder=project.folder)
    lines = _list_update_settings(loaded, deploy_plan)
    if as_json:
        click.echo(json.dumps(_as_object(deploy_plan, lines, findings), indent=2, default=str))
    else:
        _print_plan(deploy_plan, lines, endpoint=bool(loaded.environment.variants))
    return int(deploy_plan.needs_attention)


def _build_state_at(revision: str, loaded: ValidFile, project: Project) -> LiveState:
    """Return the state as if that revision of the environment were deployed unchanged."""
    with check_out_revision(project, revision) as then:
        before = then.get(loaded.name)
        if before is None:
            return LiveState()
        refusals = select_errors(check(before))
        if refusals or not isinstance(before, ValidFile):
            problem = f"could not be deployed: {refusals[0]}"
            raise PackagingError(Path(revision), problem, "pass a different revision")
        old = find_old_stack(loaded.name, before.environment, loaded.environment)
        if old is not None:
            return LiveState(old=old, taken=find_endpoint_conflict(old, loaded.environment))
        return LiveState.from_file(before, synthesise_templates(before))


def _list_update_settings(loaded: ValidFile, deploy_plan: DeployPlan) -> dict[str, list[Said]]:
    """Return the update settings of each variant; empty if no fleet is replaced."""
    environment, running = loaded.environment, deploy_plan.instances
    return {
        placed.host: list(list_update_lines(environment, placed, running=running.get(placed.host)))
        for placed in (list_placements(environment) if deploy_plan.new_fleet else ())
        if not placed.pool  # an update is the same on every instance type
    }


def _as_object(
    deploy_plan: DeployPlan, lines: dict[str, list[Said]], findings: list[Finding]
) -> dict[str, Any]:
    updates = {
        variant: {name: {"value": value, "reason": reason} for name, value, _, reason in settings}
        for variant, settings in lines.items()
    }
    return asdict(deploy_plan) | {
        "needs_attention": deploy_plan.needs_attention,
        "update": updates,
        "findings": [finding.as_json() for finding in findings],
    }


def _print_plan(deploy_plan: DeployPlan, lines: dict[str, list[Said]], *, endpoint: bool) -> None:
    words = WORDS[deploy_plan.verdict]
    if not endpoint:
        words = words.replace("creates the endpoint", "creates the batches")
        words = words.replace(
            "a second endpoint and keeps the first one", "second batches and keeps the first"
        )
    click.echo(f"{deploy_plan.environment}, against {deploy_plan.against}: {words}")
    for line in (*deploy_plan.changes, *deploy_plan.components):
        click.echo(f"  {line}")
    for variant, settings in lines.items():
        if not settings:
            continue  # serverless
        click.echo(f"\nthe new fleet of {variant}")
        widths = [max(len(line[at]) for line in settings) for at in (0, 1)]
        for name, value, _, reason in settings:
            click.echo(f"  {name:{widths[0]}}  {value:{widths[1]}}  {reason}")
    if deploy_plan.changes and not lines and deploy_plan.verdict == "update":
        stays = "the fleet stays, and no instance is replaced"
        if deploy_plan.new_fleet is None:
            stays = (
                "whether instances are replaced is unknown: no AWS document says what an update of the "
                "deployment settings alone does"
            )
        alone = "deploy when no run is active, because a run would lose its model"
        click.echo(f"\n{stays if endpoint else alone}")
    for at, deploy in enumerate(deploy_plan.deploys, start=1):
        number = f"{at}. " if len(deploy_plan.deploys) > 1 else ""
        click.echo(f"\n{number}{deploy.why}:\n    {deploy.command}")
    for reason in deploy_plan.reasons:
        echo_styled(f"{deploy_plan.environment}: {reason}", fg="red", err=True)


def print_adoption_plan(loaded: ValidFile, name: str, *, local: bool, as_json: bool) -> int:
    """Print what the file changes compared with the live endpoint `name`.

    Returns 0 if nothing changes in effect, otherwise 1. Raises `PackagingError`.
    """
    account = open_account(loaded.environment, local=local)
    account.check_credentials()
    snapshot = read_live_snapshot(account, "endpoint", name, archives=False)
    after = synthesise_endpoint(loaded)
    effects = [
        (change, explain_harmless_change(change.what, change.before, change.after, snapshot))
        for change in list_changes(build_live_template(snapshot, after), after)
    ]
    different = [change for change, why in effects if why is None]
    changed = [str(change) for change in different if not _is_added(change)]
    groups = {
        "changes": changed,
        "adds": [str(change) for change in different if _is_added(change)],
        "equivalent": [f"{change}: {why}" for change, why in effects if why is not None],
        "could not be read": [f"{what}: {why}" for what, why in snapshot.unread.items()],
    }
    if as_json:
        rows = [asdict(change) | {"same_in_effect": why} for change, why in effects]
        output = {"environment": loaded.name, "adopts": name, "changes": rows}
        click.echo(json.dumps(output | {"not_read": dict(snapshot.unread)}, indent=2))
    else:
        words = f"{len(changed)} change{'s' * (len(changed) > 1)}" if changed else "equivalent"
        click.echo(f"{loaded.name}, against the live endpoint {name}: {words}")
        for heading, lines in groups.items():
            if lines:
                click.echo("\n  ".join([f"{heading}:", *lines]))
    return int(bool(changed or snapshot.unread))


def _is_added(change: TemplateChange) -> bool:
    """Return whether the change only adds resources of one type, such as alarms."""
    counted = change.before is None and change.after is None
    return counted and change.what.endswith(" new") and "," not in change.what
