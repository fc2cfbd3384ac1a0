"""`servable check [ENV…]`: check environments against every rule, before anything is deployed."""

import json
from collections.abc import Collection
from dataclasses import asdict, replace
from datetime import UTC, datetime

import click

from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded, ValidFile
from infra.parameters.sources import find_line_number
from infra.preflight.check import check_all, select_errors
from infra.preflight.rendering import is_inconclusive
from servable.console.findings import print_findings
from servable.console.signals import INTERRUPTED, enable_ctrl_c
from servable.console.terminal import escape_controls
from servable.project.completion import complete_environments, complete_revisions
from servable.project.environments import (
    FIRST,
    Project,
    find_environment,
    pass_project,
    select_lasting_errors,
)
from servable.verdict import EXIT_CODES, Verdict

VERDICT = "verdict"
"""The key of `--json` next to the environments' names."""


@click.command()
@click.argument("names", metavar="[ENV]...", nargs=-1, shell_complete=complete_environments)
@pass_project
@click.option(
    "--against",
    metavar="REF",
    shell_complete=complete_revisions,
    help="Git revision of the current deployment.",
)
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
    chosen = [find_environment(every, name) for name in names] or every
    if not chosen:
        click.echo(f"found no environment to check; {FIRST}", err=True)
    findings_by_name = {environment.name: check_all(environment) for environment in chosen}
    finished = not runs or _run_models(chosen, findings_by_name)
    for loaded in chosen:
        findings_by_name[loaded.name] = [
            replace(finding, line=find_line_number(loaded.root / finding.file, finding.written_key))
            for finding in findings_by_name[loaded.name]
        ]
    verdict = _compute_verdict(findings_by_name.values())
    if as_json:
        _print_json(chosen, findings_by_name, verdict, explain=explain)
    else:
        if explain:
            _print_settings(chosen)
        print_findings(findings_by_name, explain=explain)
    return EXIT_CODES[verdict] if finished else INTERRUPTED


def _compute_verdict(by_environment: Collection[list[Finding]]) -> Verdict:
    if any(select_errors(findings) for findings in by_environment):
        return "does not hold"
    untold = any(is_inconclusive(finding) for findings in by_environment for finding in findings)
    return "cannot be told" if untold or not by_environment else "holds"


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
            if select_lasting_errors(findings) or not isinstance(loaded, ValidFile):
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
    chosen: list[Loaded],
    findings_by_name: dict[str, list[Finding]],
    verdict: Verdict,
    *,
    explain: bool,
) -> None:
    if VERDICT in findings_by_name:
        raise click.UsageError(f"{VERDICT}.toml: --json uses this name as a key; rename the file")
    output: dict[str, object] = {}
    for loaded in chosen:
        findings = [finding.as_json() for finding in findings_by_name[loaded.name]]
        output[loaded.name] = findings
        if explain:
            from servable.check.explain import explain_settings  # only where it is asked for

            every = explain_settings(loaded)
            settings = [asdict(each) | {"variable": each.variable} for each in every]
            output[loaded.name] = {"findings": findings, "settings": settings}
    click.echo(json.dumps(output | {VERDICT: verdict}, indent=2, default=str))


def _print_settings(chosen: list[Loaded]) -> None:
    from servable.check.explain import explain_settings  # only where it is asked for

    for loaded in chosen:
        lines = explain_settings(loaded)
        widths = [max((len(getattr(line, part)) for line in lines), default=0) for part in _PARTS]
        variant = None
        for line in lines:
            if line.variant != variant:
                variant = line.variant
                kind = "" if variant.startswith("batch ") else "variant "
                click.echo(f"{loaded.name}, {kind}{variant}")
            cells = "  ".join(
                f"{getattr(line, part):{width}}" for part, width in zip(_PARTS, widths, strict=True)
            )
            variable = f" [{line.variable}]" if line.variable else ""
            click.echo(f"  {cells}  {line.reason}{variable}")
        click.echo()


_PARTS = ("name", "value", "origin")
