"""`servable check [ENV…]`: check environments against every rule, before anything is deployed."""

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded, ValidFile
from infra.parameters.sources import find_line_number
from infra.preflight.check import check_all, select_errors
from infra.preflight.rendering import is_inconclusive
from servable.console.findings import print_findings
from servable.console.signals import INTERRUPTED, enable_ctrl_c
from servable.console.terminal import escape_controls
from servable.project import environments
from servable.project.completion import complete_environments, revision_option
from servable.project.environments import Project, pass_project
from servable.verdict import EXIT_CODES, Verdict

if TYPE_CHECKING:
    from servable.check.explain import ExplainedSetting

VERDICT = "verdict"
"""The key of `--json` next to the environments' names."""


@click.command()
@click.argument("names", metavar="[ENV]...", nargs=-1, shell_complete=complete_environments)
@pass_project
@revision_option(help="Git revision of the current deployment.")
@click.option(
    "--run",
    "runs",
    is_flag=True,
    help="Also load the models in the local container and send their golden requests.",
)
@click.option("--explain", is_flag=True, help="Show every chosen setting with its reason.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(
    project: Project,
    names: tuple[str, ...],
    against: str | None,
    runs: bool,
    explain: bool,
    as_json: bool,
) -> int:
    """Check the named environments, or all, against every rule.

    Exit code 1: an error. 3: no error, but --run could not call a model or its handler; no environment.
    """
    every = project.load_all(names[0] if len(set(names)) == 1 else None)
    if against is not None:
        from servable.project import revision  # only where it is asked for

        every = revision.attach_revision(every, project, against)
    now = datetime.now(UTC)
    every = [replace(environment, asked_at=now) for environment in every]
    chosen = [environments.find_environment(every, name) for name in names] or every
    if not chosen:
        click.echo(f"found no environment to check; {environments.FIRST}", err=True)
    findings_by_name = {environment.name: check_all(environment) for environment in chosen}
    finished = not runs or _run_models(chosen, findings_by_name)
    for loaded in chosen:
        findings_by_name[loaded.name] = [
            replace(finding, line=find_line_number(loaded.root / finding.file, finding.written_key))
            for finding in findings_by_name[loaded.name]
        ]
    findings = [finding for several in findings_by_name.values() for finding in several]
    verdict: Verdict = "holds"
    if select_errors(findings):
        verdict = "does not hold"
    elif not chosen or any(map(is_inconclusive, findings)):
        verdict = "cannot be told"
    settings: dict[str, list[ExplainedSetting]] = {}
    if explain:
        from servable.check.explain import explain_settings  # only where it is asked for

        settings = {loaded.name: explain_settings(loaded) for loaded in chosen}
    if as_json:
        _print_json(findings_by_name, settings, verdict)
    else:
        for name, lines in settings.items():
            _print_settings(name, lines)
        print_findings(findings_by_name, explain=explain)
    return EXIT_CODES[verdict] if finished else INTERRUPTED


def _run_models(chosen: list[Loaded], findings_by_name: dict[str, list[Finding]]) -> bool:
    """Run the models, add the findings, and return whether the run finished.

    An environment with errors isn't run. After Ctrl-C or SIGTERM, the findings so far are kept,
    and each environment that isn't finished gets a finding that reports the interruption.
    """
    # Imported here: they take time, and only a run needs them.
    from servable.check.run import SHOWN_BY_RUN, build_interrupted_finding, find_run_failures
    from servable.console.extras import explain_missing_packages
    from servable.console.lines import EscapingConsole

    if (requirement := explain_missing_packages()) is not None:
        raise click.UsageError(requirement)
    enable_ctrl_c()
    finished = True
    with EscapingConsole(stderr=True).status("") as status:
        for loaded in chosen:
            findings = findings_by_name[loaded.name]
            if environments.select_lasting_errors(findings) or not isinstance(loaded, ValidFile):
                # Escaped here: the status shows the styles of what is printed next to it.
                why = escape_controls(f"{loaded.name}: not run: fix its errors first")
                click.echo(why, err=True)
                continue
            kept = [
                finding
                for finding in findings
                if finding.severity is not Severity.NOT_CHECKED or finding.rule not in SHOWN_BY_RUN
            ]
            findings_by_name[loaded.name] = kept
            try:
                if finished:
                    kept.extend(find_run_failures(loaded, status.update))
            except KeyboardInterrupt:
                finished = False
            if not finished:
                kept.append(build_interrupted_finding(loaded))
    return finished


def _print_json(
    findings_by_name: dict[str, list[Finding]],
    settings: "dict[str, list[ExplainedSetting]]",
    verdict: Verdict,
) -> None:
    if VERDICT in findings_by_name:
        raise click.UsageError(f"{VERDICT}.toml: --json uses this name as a key; rename the file")
    output: dict[str, object] = {}
    for name, several in findings_by_name.items():
        findings = [finding.as_json() for finding in several]
        output[name] = findings
        if name in settings:
            every = [asdict(each) | {"variable": each.variable} for each in settings[name]]
            output[name] = {"findings": findings, "settings": every}
    click.echo(json.dumps(output | {VERDICT: verdict}, indent=2, default=str))


def _print_settings(environment: str, lines: "list[ExplainedSetting]") -> None:
    cells = [(line.name, line.value, line.origin) for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    variant = None
    for line, row in zip(lines, cells, strict=True):
        if line.variant != variant:
            variant = line.variant
            kind = "" if variant.startswith("batch ") else "variant "
            click.echo(f"{environment}, {kind}{variant}")
        padded = "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        variable = f" [{line.variable}]" if line.variable else ""
        click.echo(f"  {padded}  {line.reason}{variable}")
    click.echo()
