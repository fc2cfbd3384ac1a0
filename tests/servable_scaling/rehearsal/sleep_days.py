"""Days that sleep, as `servable rehearse` computes them, beside an event simulation.

A case is drawn: a day with a night, a policy, office hours or none, AWS's paces. The requests of each minute
are given; their moments within it are chance, so that a day is simulated several times and the mean is
compared (docs/decisions/0070).
"""

import random
import statistics
from dataclasses import dataclass, replace

from infra.parameters.loading import ValidFile, load_one
from infra.parameters.placement import placement
from infra.parameters.rehearsal_scenario import (
    MeasuredInstance,
    never_asleep,
    paces,
    scenario,
)
from servable_scaling.rehearsal.day import RehearsedDay, rehearse
from tests.checkouts import ROOT
from tests.servable_scaling.rehearsal.sleep_simulation import SimulatedSleep, SleptDay, slept

# Moments drawn for each day, and what is within the bound.
DRAWS, EXACT = 20, 0.05


@dataclass(frozen=True)
class SleptCase:
    requests: list[int]
    policy: SimulatedSleep
    sets: dict[str, str]


def drawn(seed: int, number: int) -> SleptCase:
    """A day of few requests at night and more in office hours, a policy, and the paces of AWS."""
    source = random.Random(f"sleep {seed} {number}")
    tracked = source.random() < 0.5
    minutes = source.choice((5, 10, 15)) if tracked else source.choice((5, 15, 30, 60, 90))
    # No start ends in the moment in which an alarm looks.
    most, start = source.choice((1, 2, 3)), 60 * source.randint(3, 7) + source.randint(5, 55)
    delay, wakes = source.choice((0, 30, 60, 90, 120)), source.choice((120, 300, 900, 1800))
    begin, end = source.randint(360, 540), source.randint(960, 1200)
    night, busy = source.uniform(0.002, 0.08), source.choice((0.3, 2.0, 12.0))
    rates = [busy if begin <= minute < end else night for minute in range(1440)]
    requests = [_count(source, rate) for rate in rates]
    requests[0] = 0
    rate = busy / 60 / source.choice((0.8, 1.6, 2.4)) / 0.7  # a peak of one, two or three copies
    office = (source.randint(330, 420), 1200) if source.random() < 0.25 else None
    table = "variants.primary"
    scaling = [f"metric_delay_seconds = {delay}"]
    if tracked:
        scaling += [f"max_rps_per_instance = {rate!r}", "safety_factor = 0.7"]
        scaling += ["scale_out_cooldown_seconds = 120", "scale_in_cooldown_seconds = 240"]
    if office:
        awake = [(office[0], 1), (office[1], 0)]
        actions = [
            f'{{ at = "cron({at % 60} {at // 60} * * ? *)", at_least = {least} }}'
            for at, least in awake
        ]
        scaling.append(f"schedule = [{', '.join(actions)}]")
    return SleptCase(
        requests,
        SimulatedSleep(
            sleep_after_minutes=minutes,
            most=most,
            start_seconds=start,
            copy_start_seconds=start - 180,
            delay_seconds=delay,
            wake_seconds=wakes,
            wake_cooldown=min(300, 60 * minutes),
            target=60 * rate * 0.7 if tracked else None,
            out_cooldown=120,
            in_cooldown=240,
            office=office,
        ),
        {
            f"{table}.sleep_after_minutes": str(minutes),
            f"{table}.max_instances": str(most),
            f"{table}.start_seconds": str(start),
            f"{table}.scaling": f"{{ {', '.join(scaling)} }}",
            "endpoint.wake_seconds": str(wakes),
        },
    )


def _count(source: random.Random, mean: float) -> int:
    count, passed = 0, source.expovariate(mean)
    while passed < 1:
        count, passed = count + 1, passed + source.expovariate(mean)
    return count


def rehearsed(case: SleptCase, *, sleeps: bool = True) -> RehearsedDay:
    loaded = load_one(ROOT, ROOT / "examples" / "variants", "sleeping", case.sets, "--set")
    assert isinstance(loaded, ValidFile), loaded.findings
    environment = loaded.environment
    placed = placement(environment, "primary")
    assert placed is not None
    if not sleeps:
        environment = never_asleep(environment, placed)
        placed = placement(environment, "primary")
        assert placed is not None
    (pace,) = paces(placed)
    instance = MeasuredInstance(rate_rps=100, p50_ms=20, p99_ms=60, source="drawn")
    return rehearse(scenario(environment, placed, case.requests, instance, pace=pace))


def simulated(case: SleptCase, draws: int = DRAWS) -> list[SleptDay]:
    """The day with so many different moments of its requests."""
    least = case.policy.least
    return [slept(case.requests, case.policy, copies=least, seed=seed) for seed in range(draws)]


def never_sleeping(case: SleptCase) -> SleptCase:
    """The same day where one copy always runs, of instances without components: they end at once."""
    always = replace(
        case.policy, sleep_after_minutes=1_500, least=1, empty_seconds=0.0, office=None
    )
    return replace(case, policy=always)


def compared(case: SleptCase, draws: int = DRAWS) -> dict[str, dict[str, float]]:
    """By what is compared: what the rehearsal says, and mean and deviation of single simulated days."""
    day, days = rehearsed(case), simulated(case, draws)
    awake = simulated(never_sleeping(case), draws=2)
    numbers = {
        "hours": (day.instance_hours, [each.instance_seconds / 3600 for each in days]),
        "waiting": (day.waiting, [float(each.waiting) for each in days]),
        "gave up": (day.gave_up, [float(each.gave_up) for each in days]),
        "awake": (
            rehearsed(case, sleeps=False).instance_hours,
            [each.instance_seconds / 3600 for each in awake],
        ),
    }
    return {
        name: {
            "rehearsed": round(ours, 3),
            "simulated": round(statistics.fmean(theirs), 3),
            "deviation": round(statistics.stdev(theirs), 3),
        }
        for name, (ours, theirs) in numbers.items()
    }
