"""Output of `servable tune`: on stderr while it measures, on stdout at its end."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from servable.console.lines import SILENT_SECONDS
from servable.load.objective import Objective, usd_per_million
from servable.measured.precision import readable
from servable.tune.machine_space import Machines
from servable.tune.recommendation import headline
from servable.tune.run import TuneProgress
from servable.tune.search.space import BATCH_SIZE, Point, shown
from servable.tune.search.trial import Trial
from servable.tune.tune import TuneResult


def speaker(most_trials: int) -> TuneProgress:
    """Return callbacks that print on stderr, so that stdout is the answer."""
    said_at = time.monotonic()

    def began(folder: Path, machines: Machines, done: int, objective: Objective) -> None:
        limit = f"p{objective.percent:g} at most {objective.most_ms:g} ms"
        click.echo(f"{len(machines.space):,} combinations of settings; {limit}; {folder}", err=True)
        for name, why in machines.left_out.items():
            click.echo(f"not tried: {name}: {why}", err=True)
        if done:
            click.echo(f"an earlier run made {done} of the trials; going on", err=True)

    def trial(one: Trial, seconds_left: float | None) -> None:
        about = one.measured.about
        found = f"{readable(about['rps']['value'])} requests/s" if "rps" in about else "-"
        cost = about.get("usd_per_million") if about.get("usd") else None
        found += "" if cost is None else f", {cost:.3g} $ per million"
        why = f"  ({one.measured.failure})" if one.measured.failure else ""
        left = (
            "" if seconds_left is None else f"; at most {seconds_left / 60:.1f} min of trials left"
        )
        say_line(f"{one.number + 1:3d}/{most_trials}  {found:<18} {settings(one.point)}{why}{left}")

    def say_line(text: str) -> None:
        nonlocal said_at
        said_at = time.monotonic()
        click.echo(text, err=True)

    def step(load: float, known: dict[str, Any]) -> None:
        # Else a measurement that is under way looks like one that hangs.
        if time.monotonic() - said_at > SILENT_SECONDS:
            users = f"{readable(load)} user{'s' if load != 1 else ''}"
            say_line(f"     at {users}, {readable(known['rps'])} requests/s so far")

    return TuneProgress(began=began, trial=trial, stage=say_line, step=step)


def settings(point: Point) -> str:
    """One line of it; without batching nothing is said of it."""
    unbatched = point.get(BATCH_SIZE, 0) is None
    return " ".join(
        f"{name}={shown(value)}"
        for name, value in point.items()
        if value is not None and not (name.startswith("batching.") and unbatched)
    )


def say(tuned: TuneResult, *, write: bool, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_object(tuned, write=write)))
        return
    advice = tuned.content.recommendation
    assert advice is not None  # tune() has made it
    click.echo(f"{len(tuned.content.trials)} trials; {tuned.content.stopped}")
    click.echo(headline(advice.choice, tuned.content.goal))
    for change in advice.changes:
        click.echo(f"  {'.'.join(change.key)} = {json.dumps(change.value)}   {change.reason}")
    settings_kept = "The chosen settings" if advice.choice.better else "Today's settings"
    click.echo(f"{settings_kept} carry {advice.rps} requests/s within the objective.")
    if (cost := _usd_per_million(tuned)) is not None:
        click.echo(f"  {cost:.3g} $ per million predictions, of an instance as busy as that")
    if advice.relative:
        click.echo("relative: measured on this computer; it sets no scaling target and no alarm")
    if tuned.diff:
        click.echo(f"\n{tuned.diff}")
        click.echo("written" if write else "not written; --write applies it")
    click.echo(f"report: {tuned.report}")


def _object(tuned: TuneResult, *, write: bool) -> dict[str, Any]:
    advice = tuned.content.recommendation
    assert advice is not None  # tune() has made it
    choice = advice.choice
    return {
        "settings": choice.point,
        "today": choice.start,
        "goal": tuned.content.goal,
        "verdict": choice.confirmation.verdict,
        **asdict(choice.confirmation),
        "better": choice.better,
        "noise": choice.noise,
        "kept": choice.kept,
        "rps": asdict(advice.rps),
        "usd_per_million": _usd_per_million(tuned),
        "relative": advice.relative,
        "trials": len(tuned.content.trials),
        "stopped": tuned.content.stopped,
        "report": str(tuned.report),
        "diff": tuned.diff,
        "written": write and bool(tuned.diff),
    }


def _usd_per_million(tuned: TuneResult) -> float | None:
    """Predictions; None for what was measured on this computer, or without a price."""
    price, advice = tuned.content.usd_per_hour, tuned.content.recommendation
    if price is None or advice is None:
        return None
    return usd_per_million(advice.rps.value, price)
