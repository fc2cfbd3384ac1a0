"""Alternatives that `--compare` tries: values of an environment file's keys, all combined."""

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from infra.catalog.instances import instances
from infra.parameters.finding import meant
from infra.parameters.placement import Placement
from servable.rehearse.day_schedule import schedule_of
from servable_scaling.rehearsal.scenario import Scenario

MOST = 500
# Short names, and the keys inside [variants.NAME] that they stand for.
NAMES: Mapping[str, str] = {
    "target": "scaling.safety_factor",
    "minimum": "min_instances",
    "maximum": "max_instances",
    "requests": "scaling.max_rps_per_instance",
    "concurrency": "scaling.max_concurrency_per_instance",
    "steps": "scaling.steps",
    "schedule": "scaling.schedule",
    "out-cooldown": "scaling.scale_out_cooldown_seconds",
    "in-cooldown": "scaling.scale_in_cooldown_seconds",
    "instance-type": "instance_type",
    "sleep": "sleep_after_minutes",
}
NEVER = "0"
# Where --compare has no value, for a variant that sleeps. Our choice.
SLEEPS = (NEVER, "5", "15", "60")
# Keys of a scaling table of which one must be there for what does not sleep.
SCALES = ("max_rps_per_instance", "max_concurrency_per_instance", "steps", "schedule")
# Where --compare has no value. Our choice: AWS begins with 50 %, and 80 % leaves little.
TARGETS = (40, 50, 60, 70, 80)
KEPT = "file"
# The value of `schedule` that stands for one made from the day.
OF_THE_DAY = "day"
_COMMA = re.compile(r",(?![^\[{(]*[\]})])")
_PLANNED = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)@(\d{1,4})")


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """Keys with their values as TOML, as `--set` takes them; none: the policy of the file.

    `rate_rps`: of one instance, where the alternative has another instance type.
    """

    label: str
    sets: Mapping[str, str]
    rate_rps: float | None = None


AS_IT_IS = Alternative(label="the file", sets={})


def alternatives(options: Sequence[str], placed: Placement, planned: Scenario) -> list[Alternative]:
    """The file's policy first, then every combination. `planned`: the day, at its slowest pace.

    Raises UsageError.
    """
    given = [_parted(option) for option in filter(None, options)]
    groups = [given] if given else _usual(placed, planned.model.servers)
    by_label = {AS_IT_IS.label: AS_IT_IS}
    for chosen in groups:
        names = [name for name, _ in chosen]
        if len(set(names)) < len(names):
            raise click.UsageError("--compare: each name may be given once, with all of its values")
        count = math.prod(len(values) for _, values in chosen)
        if count > MOST:
            raise click.UsageError(
                f"--compare: {count:,} combinations; allowed: at most {MOST}; give fewer values"
            )
        for combined in itertools.product(*(values for _, values in chosen)):
            pairs = zip(names, combined, strict=True)
            values = {name: value for name, value in pairs if value != KEPT}
            alternative = _alternative(values, placed, planned)
            by_label.setdefault(alternative.label, alternative)
    return list(by_label.values())


def _parted(option: str) -> tuple[str, list[str]]:
    name, equals, values = option.partition("=")
    if not equals or (name not in NAMES and "." not in name):
        raise click.UsageError(
            f"--compare {option}: expected NAME=VALUE,VALUE; allowed names: {', '.join(NAMES)}, or a key "
            f"of the environment file; {meant(name, [*NAMES])}"
        )
    stripped = [value.strip() for value in _COMMA.split(values)]
    if not all(stripped):
        raise click.UsageError(f"--compare {option}: a value is empty; write NAME=VALUE,VALUE")
    return name, stripped


def _usual(placed: Placement, servers: int) -> list[list[tuple[str, list[str]]]]:
    """Default alternatives: minimums; of a variant that scales also targets, a schedule and concurrency.

    For one that sleeps: the minutes after which it does.
    """
    if placed.variant.sleeps:
        return [[("sleep", [KEPT, *SLEEPS])]]
    least, most = (
        placed.variant.capacity if placed.variant.scales else (placed.variant.min_instances, None)
    )
    minimums = sorted({least, least + 1, 2 * least, 3 * least})
    counts = [str(count) for count in minimums if most is None or count <= most]
    if placed.variant.scaling is None or not placed.variant.scales:
        return [[("minimum", counts)]]
    fewest, scheduled = ("minimum", counts), ("schedule", [KEPT, OF_THE_DAY])
    usual = [[("target", [KEPT, *map(str, TARGETS)]), fewest, scheduled]]
    if placed.variant.scaling.max_concurrency_per_instance is None:
        usual.append([fewest, ("concurrency", [str(servers)])])
    return usual


def _key(name: str, placed: Placement) -> str:
    """The key of the environment file; of a component the one that counts its copies."""
    key = NAMES[name]
    return placed.key(key.replace("_instances", "_copies") if placed.variant.component else key)


def _alternative(values: Mapping[str, str], placed: Placement, planned: Scenario) -> Alternative:
    keys, sets, rate = {name: _key(name, placed) for name in NAMES}, {}, None
    for name, value in values.items():
        key = keys.get(name, name)
        if name == "target":
            sets[key] = _share(value)
        elif name == "schedule":
            least = values.get("minimum", str(placed.variant.min_instances))
            if value == OF_THE_DAY:
                most = int(values.get("maximum", placed.variant.most_instances))
                sets[key] = schedule_of(planned, least=int(least), most=most)
            else:
                sets[key] = _schedule(value, least)
        elif name == "instance-type":
            sets[key], rate = _instance(value, placed)
            scaling = placed.variant.scaling
            if scaling is not None and scaling.max_rps_per_instance is not None:
                sets.setdefault(keys["requests"], f"{rate:g}")
        elif name == "sleep":
            sets |= _sleep(value, placed, keys)
        else:
            sets[key] = value
    words = ", ".join(
        f"{name} {value}{' %' * (name == 'target')}" for name, value in values.items()
    )
    return Alternative(label=words or AS_IT_IS.label, sets=sets, rate_rps=rate)


def _sleep(value: str, placed: Placement, keys: Mapping[str, str]) -> dict[str, str]:
    """The keys of a sleep after so many minutes, or of none. A key without a value is taken out."""
    variant, scaling = placed.variant, placed.variant.scaling
    if value != NEVER:
        return {keys["sleep"]: value, keys["minimum"]: ""}
    if variant.component:
        sets = {keys["sleep"]: "", keys["minimum"]: ""}
        if not variant.min_instances:
            sets[placed.key("min_instances")] = ""  # none may run only where all components sleep
    else:
        sets = {keys["sleep"]: "", placed.key("copy_memory_mib"): ""}
    if scaling is None:
        return sets
    if any(action.at_least == 0 for action in scaling.schedule):
        actions = []
        for action in scaling.schedule:
            given = action.model_dump(exclude_unset=True)
            given |= {"at_least": 1} if action.at_least == 0 else {}
            pairs = ", ".join(f"{name} = {json.dumps(each)}" for name, each in given.items())
            actions.append(f"{{ {pairs} }}")
        sets[keys["schedule"]] = f"[{', '.join(actions)}]"
    elif not any(getattr(scaling, name) for name in SCALES):
        sets[placed.key("scaling")] = ""
    return sets


def _share(value: str) -> str:
    try:
        percent = float(value)
    except ValueError:
        percent = 0.0
    if not 0 < percent <= 100:
        raise click.UsageError(
            f"--compare target={value}: expected percent of the measured maximum, above 0 and at most 100"
        )
    return f"{percent / 100:g}"


def _schedule(value: str, least: str) -> str:
    """none, HH:MM-HH:MM@COUNT in UTC, or the TOML of the key."""
    if value == "none" or value.startswith("["):
        return "[]" if value == "none" else value
    match = _PLANNED.fullmatch(value)
    if match is None:
        raise click.UsageError(
            f"--compare schedule={value}: expected none, day, or HH:MM-HH:MM@COUNT (UTC), such as "
            "07:30-20:00@6"
        )
    begin_hour, begin, end_hour, end, count = map(int, match.groups())
    return (
        f'[{{ at = "cron({begin} {begin_hour} * * ? *)", at_least = {count} }}, '
        f'{{ at = "cron({end} {end_hour} * * ? *)", at_least = {least} }}]'
    )


def _instance(value: str, placed: Placement) -> tuple[str, float]:
    """TYPE@RATE: (the type, as TOML; requests/s that one answers)."""
    name, _, rate = value.partition("@")
    if placed.variant.instance_pools or name not in instances():
        problem = "the variant has instance_pools" if placed.pool is not None else "is unknown"
        raise click.UsageError(
            f"--compare instance-type={value}: {problem}; {meant(name, list(instances()))}"
        )
    try:
        answered = float(rate)
    except ValueError:
        answered = 0.0
    if not 0 < answered < float("inf"):
        raise click.UsageError(
            f"--compare instance-type={value}: how many requests/s an {name} answers is not known; measure "
            f"it with `servable load`, and write {name}@RATE"
        )
    return json.dumps(name), answered
