"""Policies to rehearse from alternatives, and the environment file with the best of them."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
import tomlkit
from tomlkit.exceptions import TOMLKitError

from infra.parameters.loading import ValidFile, load_one
from infra.parameters.placement import Placement
from infra.parameters.rehearsal_scenario import Incidents, MeasuredInstance, paces, scenario
from servable.project import refused
from servable.rehearse.alternatives import Alternative
from servable.rehearse.comparison import PolicyComparison, PolicyTrial
from servable.rehearse.rehearsal import variant_of
from servable.tune import environment_edit
from servable.tune.environment_edit import KeyChange
from servable_scaling.rehearsal.fleet import Bursts

PolicyTrials = tuple[list[PolicyTrial], dict[str, str], bool]


@dataclass(frozen=True, kw_only=True)
class PolicyProposal:
    """The environment file with the best policy. `diff`: empty where the file's policy stays."""

    diff: str
    after: str
    file: Path


def candidates(
    loaded: ValidFile,
    folder: Path,
    placed: Placement,
    several: Sequence[Alternative],
    requests: Sequence[float],
    measured: MeasuredInstance,
    incidents: Incidents,
    bursts: Bursts | None,
) -> PolicyTrials:
    """(the file's policy and the alternatives that `servable check` accepts, {alternative: why not}, priced).

    Raises ClickException where instance types are compared whose prices are not known.
    """
    before, left_out = set(refused(loaded)), {}
    running: list[tuple[Alternative, ValidFile, Placement]] = []
    for alternative in several:
        sets = {**loaded.overrides, **alternative.sets}
        again = load_one(loaded.root, folder, loaded.name, sets, "--compare")
        if not isinstance(again, ValidFile):
            left_out[alternative.label] = str(again.findings[0])
        elif alternative.sets and (
            problems := [problem for problem in refused(again) if problem not in before]
        ):
            left_out[alternative.label] = problems[0]
        else:
            running.append((alternative, again, variant_of(again, placed.name)))
    prices = {where.instance.name: _price(again, where) for _, again, where in running}
    unknown = [name for name, price in prices.items() if price is None]
    if unknown and len(prices) > 1:
        raise click.ClickException(
            f"{loaded.file}: no price of {', '.join(unknown)} is known; add it to "
            "[prices.instance_usd_per_hour], or run `servable cost ENV --refresh`"
        )
    trials: list[PolicyTrial] = []
    for alternative, again, where in running:
        rate = alternative.rate_rps
        instance = measured if rate is None else replace(measured, rate_rps=rate)
        *_, slowest = paces(where)
        planned = scenario(
            again.environment, where, requests, instance, incidents, pace=slowest, bursts=bursts
        ).unwatched()
        price = prices[where.instance.name]
        per_hour = 1.0 if price is None else price
        if not any(other.scenario == planned and other.per_hour == per_hour for other in trials):
            trials.append(PolicyTrial(alternative=alternative, scenario=planned, per_hour=per_hour))
    return trials, left_out, not unknown


def _price(loaded: ValidFile, placed: Placement) -> float | None:
    price = loaded.environment.prices.instance(placed.instance.name, loaded.environment.region)
    return None if price is None else price.usd_per_hour


def proposed(loaded: ValidFile, comparison: PolicyComparison) -> PolicyProposal:
    """The file with the best policy, where there is one and its advantage holds."""
    file = loaded.root / loaded.file
    before = after = file.read_text(encoding="utf-8")
    best, advantage = comparison.best, comparison.advantage
    sets = best.trial.alternative.sets if best else {}
    # A key of another file is not taken out of this one.
    inherited = [key for key, value in sets.items() if not value and _of_a_base(loaded, key)]
    if best is not None and advantage is not None and advantage.holds and not inherited:
        changes = [
            KeyChange(key=tuple(key.split(".")), value=_item(value), reason="")
            for key, value in sets.items()
        ]
        note = f"rehearsed {time.strftime('%Y-%m-%d')}, servable rehearse"
        after = environment_edit.edited(before, changes, note=note)
    diff = environment_edit.diff(os.fspath(loaded.file), before, after)
    return PolicyProposal(diff=diff, after=after, file=file)


def _of_a_base(loaded: ValidFile, key: str) -> bool:
    path = tuple(key.split("."))
    return path in loaded.source.origins and loaded.source.origins[path] != loaded.file


def _item(text: str) -> tomlkit.items.Item | None:
    if not text:
        return None
    try:
        return tomlkit.value(text)
    except TOMLKitError:
        return tomlkit.string(text)
