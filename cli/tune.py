"""`servable tune ENV`: search a variant's settings, and show what the file should say."""

import json
import signal
from pathlib import Path
from typing import Any

import click

from cli.project import project, unknown
from infra.parameters.loading import Loaded, load
from infra.preflight.check import check, errors
from infra.preflight.placement import Placement, placements
from local.endpoint.launch import LaunchError
from model_packaging.refusal import Refusal
from operations.tune import Asking, Told, Tuned, TuneError
from operations.tune import tune as search
from tuning import environment_edit
from tuning.bodies import BodyError, read
from tuning.load_generator import LoadError
from tuning.objective import Objective
from tuning.search.space import Space
from tuning.search.trial import Trial

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
# What packing decides, which comes first here.
MENDED_HERE = "code-not-vendored"


@click.command()
@click.argument("environment", metavar="ENV")
@click.option("--environments", "folder", default="environments", help="Folder of the files.")
@click.option("--variant", help="One of the environment's variants; left out, the first.")
@click.option("--body", "bodies", type=FILE, multiple=True, help="Sent; left out, warm_up's.")
@click.option("--content-type", help="Of the bodies; left out, by the file's name.")
@click.option("--p99-ms", type=click.FloatRange(0, min_open=True), help="The latency limit.")
@click.option("--trials", default=40, show_default=True, type=click.IntRange(1), help="At most.")
@click.option("--minutes", default=9.0, show_default=True, help="At most, about, of everything.")
@click.option("--setting", "only", multiple=True, help="May change; none named, all may.")
@click.option(
    "--new", "anew", is_flag=True, help="Begin anew; left out, an interrupted run goes on."
)
@click.option("--write", is_flag=True, help="Apply the diff to the environment's file.")
@click.option("--force-local-numbers", is_flag=True, help="Scaling and alarms from this machine.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def tune(environment: str, folder: str, **told: Any) -> int:
    """Measure settings of ENV's container on this machine; the best ones, as a diff to its file.

    Ctrl-C, or worse, loses the trial under way; the same command goes on with the others.
    """
    loaded = _environment(environment, folder)
    wrong = [one for one in errors(check(loaded)) if one.rule != MENDED_HERE]
    if wrong or loaded.environment is None:
        for finding in wrong:
            click.echo(str(finding), err=True)
        return 1
    placement = _placement(loaded, told["variant"])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        asking = _asking(loaded, placement, told)
        tuned = search(loaded, placement, asking, _speaker(told["trials"]), anew=told["anew"])
    except (TuneError, LaunchError, LoadError, Refusal, BodyError) as error:
        click.echo(f"servable tune: {error}", err=True)
        return 1
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if told["write"] and tuned.after != tuned.before:
        environment_edit.write(tuned.file, tuned.after)
    _say(tuned, told)
    return 0


def _environment(name: str, folder: str) -> Loaded:
    root, files = project(folder)
    known = {one.name: one for one in load(root, files)}
    if name not in known:
        raise unknown(name, known)
    return known[name]


def _placement(loaded: Loaded, variant: str | None) -> Placement:
    assert loaded.environment is not None  # the caller has looked at its findings
    placed = {one.name: one for one in placements(loaded, loaded.environment)}
    name = variant or next(iter(placed), "")
    if name not in placed:
        raise click.UsageError(f"there is no variant {name!r}; allowed: {', '.join(placed)}")
    return placed[name]


def _asking(loaded: Loaded, placement: Placement, told: dict[str, Any]) -> Asking:
    files = told["bodies"] or tuple(loaded.root / one for one in placement.model.warm_up[:1])
    if not files:
        raise click.UsageError("give --body FILE: the model has no warm_up request to send")
    return Asking(
        bodies=[one for file in files for one in read(file, content_type=told["content_type"])],
        body_names=tuple(file.name for file in files),
        most_ms=told["p99_ms"],
        only=told["only"],
        trials=told["trials"],
        minutes=told["minutes"],
        force_local_numbers=told["force_local_numbers"],
    )


def _speaker(most_trials: int) -> Told:
    """On stderr, so that stdout is the answer."""

    def began(folder: Path, space: Space, done: int, objective: Objective) -> None:
        limit = f"p{objective.percent:g} at most {objective.most_ms:g} ms"
        click.echo(f"{len(space)} settings may be tried; {limit}; {folder}", err=True)
        if done:
            click.echo(f"{done} trials are done already; going on", err=True)

    def trial(one: Trial, seconds_left: float | None) -> None:
        settings = " ".join(f"{name}={value}" for name, value in one.point.items())
        found = one.measured.failure or f"{one.measured.value:.4g} requests/s"
        left = "" if seconds_left is None else f"; at most {seconds_left / 60:.1f} min left"
        click.echo(f"{one.number + 1:3d}/{most_trials}  {found:<22} {settings}{left}", err=True)

    return Told(began=began, trial=trial, stage=lambda text: click.echo(text, err=True))


def _say(tuned: Tuned, told: dict[str, Any]) -> None:
    advice = tuned.content.recommendation
    assert advice is not None  # tune() has made it
    gain = advice.choice.gain
    written = told["write"] and tuned.after != tuned.before
    if told["as_json"]:
        said = {
            "settings": advice.choice.point,
            "today": advice.choice.start,
            "gain": {"value": gain.value, "low": gain.low, "high": gain.high},
            "better": advice.choice.better,
            "rps": {"value": advice.rps.value, "low": advice.rps.low, "high": advice.rps.high},
            "relative": advice.relative,
            "trials": len(tuned.content.trials),
            "stopped": tuned.content.stopped,
            "report": str(tuned.report),
            "diff": tuned.diff,
            "written": written,
        }
        click.echo(json.dumps(said))
        return
    click.echo(f"{len(tuned.content.trials)} trials; {tuned.content.stopped}")
    interval = f"{gain.value:+.1%} (95 % interval {gain.low:+.1%} to {gain.high:+.1%})"
    if advice.choice.better:
        click.echo(f"better than today's settings by {interval}:")
        for change in advice.changes:
            click.echo(f"  {'.'.join(change.key)} = {change.value}   {change.reason}")
    else:
        click.echo(f"nothing better than today's settings was shown: {interval}; they stay")
    if advice.relative:
        click.echo("relative: measured on this machine; it sets no scaling target and no alarm")
    if tuned.diff:
        click.echo(f"\n{tuned.diff}")
        click.echo("written" if written else "not written; --write applies it")
    click.echo(f"report: {tuned.report}")
