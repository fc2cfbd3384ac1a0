"""`servable tune ENV`: search a variant's settings and recommend changes to its file.

Progress is printed on stderr, the result on stdout.
"""

import json
from dataclasses import asdict
from typing import Any

import click

from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement, list_placements
from model_packaging.refusal import PackagingError
from servable.console.signals import enable_ctrl_c
from servable.load.bodies import load_bodies
from servable.measured.measurement import LoadError
from servable.measured.options import ABOVE_0, AS_JSON, BODY, CONTENT_TYPE, LOCAL, add_options
from servable.project import environment_edit
from servable.project.account import open_account
from servable.project.completion import ENVIRONMENT
from servable.project.environments import ENVIRONMENTS, SET, Project, list_errors
from servable.project.provided import LaunchError
from servable.tune.recommendation import describe_result
from servable.tune.run import Run, TuneOptions, TuneProgress
from servable.tune.search.recommended import Verdict
from servable.tune.tune import TuneResult
from servable.tune.tune import tune as search


def print_result(tuned: TuneResult, *, write: bool, as_json: bool) -> None:
    content, advice, choice = tuned.content, tuned.advice, tuned.advice.choice
    if as_json:
        result = {
            "settings": choice.point,
            "today": choice.start,
            "not_tried": content.left_out,
            "goal": content.goal,
            "verdict": choice.confirmation.verdict,
            **asdict(choice.confirmation),
            "better": choice.is_better,
            "noise": choice.noise,
            "kept": choice.recommended_point,
            "rps": asdict(advice.rps),
            "usd_per_million": content.usd_per_million,
            "relative": advice.relative,
            "trials": len(content.trials),
            "stopped": content.stopped,
            "report": str(tuned.report),
            "diff": tuned.diff,
            "written": write and bool(tuned.diff),
        }
        click.echo(json.dumps(result))
        return
    click.echo(f"{len(content.trials)} trials; {content.stopped}")
    click.echo(describe_result(choice, content.goal))
    for change in advice.changes:
        click.echo(f"  {'.'.join(change.key)} = {json.dumps(change.value)}   {change.reason}")
    kept = "The chosen settings" if choice.is_better else "Today's settings"
    click.echo(f"{kept} sustain {advice.rps} requests/s within the objective.")
    if (cost := content.usd_per_million) is not None:
        click.echo(f"  {cost:.3g} $ per million predictions, if an instance is always at this load")
    if advice.relative:
        click.echo("measured on this computer, so relative: no scaling target or alarm is set")
    if tuned.diff:
        click.echo(f"\n{tuned.diff}")
        click.echo("written" if write else "not written; --write applies it")
    click.echo(f"report: {tuned.report}")


# Limit of the whole search where it costs only time.
LOCAL_MINUTES = 9.0
EXIT_CODES: dict[Verdict, int] = {"better": 0, "not better": 1, "cannot be told": 3}


def _parse_names(value: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value
    names = tuple(name.strip() for name in value.split(","))
    if not all(names):
        raise click.BadParameter(f"{value!r}: separate the names with commas")
    return names


OPTIONS = (
    ENVIRONMENTS,
    SET,
    click.option("--variant", help="Variant of the environment (default: the first)."),
    # --- where
    click.option(
        "--target",
        type=click.Choice(("local", "sagemaker")),
        default="local",
        show_default=True,
        help="ENV's local container, or a copy of its deployed endpoint for each trial.",
    ),
    LOCAL,
    # --- what
    click.option(
        "--for",
        "goal",
        type=click.Choice(("throughput", "cost")),
        default="throughput",
        show_default=True,
        help="Maximize requests per second, or minimize dollars per million, within the limit.",
    ),
    click.option(
        "--p99-ms", "most_ms", type=ABOVE_0, help="Latency limit (default: that of ENV's alarm)."
    ),
    click.option("--setting", "only", multiple=True, help="Change only this setting. Repeatable."),
    click.option(
        "--instance-types",
        type=_parse_names,
        default=(),
        metavar="A,B",
        help="More instance types to try, with --target sagemaker.",
    ),
    BODY,
    CONTENT_TYPE,
    # --- how much
    click.option(
        "--trials",
        default=40,
        show_default=True,
        type=click.IntRange(1),
        help="Maximum number of trials; up to half of them compare the choice with today's settings.",
    ),
    click.option(
        "--minutes",
        type=ABOVE_0,
        help=f"Approximate maximum total minutes (default: {LOCAL_MINUTES:g} for the local container).",
    ),
    click.option(
        "--dollars", type=ABOVE_0, help="Maximum dollars for temporary endpoints, in all runs."
    ),
    # --- what happens with the result
    click.option("--new", "anew", is_flag=True, help="Start over, and reset the count of dollars."),
    click.option("--write", is_flag=True, help="Apply the diff to the environment's file."),
    click.option(
        "--force-local-numbers",
        is_flag=True,
        help="Set scaling and alarms from this computer's numbers.",
    ),
    AS_JSON,
)


@click.command()
@ENVIRONMENT
@add_options(OPTIONS)
def tune(
    environment: str,
    folder: str,
    sets: tuple[str, ...],
    variant: str | None,
    minutes: float | None,
    dollars: float | None,
    anew: bool,
    write: bool,
    as_json: bool,
    **values: Any,
) -> int:
    """Measure settings of ENV's container, and print the best ones as a diff to its file.

    Exit codes: 0 better settings were shown; 1 no settings are better; 3 inconclusive; 2 not measured.
    If the command is interrupted, type it again: it repeats only the unfinished trial.
    """
    here, local = values.pop("target") == "local", values.pop("local")
    for option, given in (("--local", local), ("--instance-types", values["instance_types"])):
        if here and given:
            raise click.UsageError(f"{option} applies only to --target sagemaker")
    if here == bool(dollars):
        raise click.UsageError("--target sagemaker costs money; pass it together with --dollars")
    loaded = Project(folder, sets).load_endpoint(environment)
    if problems := list_errors(loaded):
        click.echo("\n".join(problems), err=True)
        return 2
    placement = _find_placement(loaded, variant)
    enable_ctrl_c()
    try:
        files, kind = values.pop("files"), values.pop("content_type")
        bodies, names = load_bodies(files, content_type=kind, loaded=loaded, variant=placement.name)
        account = None if here else open_account(loaded.environment, local=local)
        if account is not None:
            account.check_credentials()
        options = TuneOptions(
            bodies=bodies,
            body_names=names,
            account=account,
            minutes=minutes or (LOCAL_MINUTES if here else None),
            dollars=dollars or 0.0,
            **values,
        )
        run = Run(loaded, placement, options, TuneProgress(options.trials))
        tuned = search(run, anew=anew)
    except (LaunchError, LoadError, PackagingError) as error:
        click.echo(f"servable tune: {error}", err=True)
        return 2
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except KeyboardInterrupt:
        click.echo("interrupted; run the same command again to continue", err=True)
        return 130
    if write and tuned.diff:
        environment_edit.write(loaded.root / loaded.file, tuned.after)
    print_result(tuned, write=write, as_json=as_json)
    return EXIT_CODES[tuned.advice.choice.confirmation.verdict]


def _find_placement(loaded: ValidFile, variant: str | None) -> Placement:
    placed = {one.name: one for one in list_placements(loaded.environment) if not one.pool}
    name = variant or next(iter(placed), "")
    if name not in placed:
        raise click.UsageError(f"there is no variant {name!r}; allowed: {', '.join(placed)}")
    if placed[name].variant.component:
        raise click.ClickException(
            f"{name} shares its instances with other components, so it can't be measured alone; tune its "
            "model in a separate environment, and write the settings into its table"
        )
    return placed[name]
