"""Days with nights, rehearsed beside an event simulation that knows none of our code."""

import random
import statistics
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchmarks.verdicts.sleep_simulation import SimulatedSleep, slept
from infra.parameters.loading import ValidFile, load_one
from infra.parameters.placement import placement
from infra.parameters.rehearsal_scenario import (
    MeasuredInstance,
    never_asleep,
    paces,
    scenario,
)
from servable_scaling.rehearsal.day import RehearsedDay, rehearse

ROOT = Path(__file__).resolve().parents[3]
# Moments within a minute are chance: their mean is what a day by the minute can know.
MOMENTS = 5


@dataclass(frozen=True)
class SleptCase:
    requests: list[int]
    policy: SimulatedSleep
    sets: dict[str, str]


def drawn(number: int) -> SleptCase:
    """A day of few requests at night and more in office hours, a policy, and the paces of AWS."""
    source = random.Random(f"sleep {number}")
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


def simulated(case: SleptCase, moments: int = MOMENTS) -> tuple[float, float, float, float]:
    """(instance hours, callers who wait, callers who give up, seconds of a wait)"""
    least = case.policy.least
    days = [slept(case.requests, case.policy, copies=least, seed=seed) for seed in range(moments)]
    waits = [wait for day in days for wait in day.waits]
    return (
        statistics.fmean(day.instance_seconds for day in days) / 3600,
        statistics.fmean(day.waiting for day in days),
        statistics.fmean(day.gave_up for day in days),
        statistics.fmean(waits or [0.0]),
    )


# Small days of each kind: tracked and not, with office hours, one copy and three, giving up and waiting.
CASES = (1, 4, 13, 21, 24, 27)
EXACT = 0.05


@pytest.fixture(scope="module")
def beside() -> list[tuple[RehearsedDay, tuple[float, float, float, float]]]:
    return [(rehearsed(case), simulated(case)) for case in map(drawn, CASES)]


def test_instance_hours_of_days_that_sleep_are_those_of_the_event_simulation(
    beside: list[tuple[RehearsedDay, tuple[float, float, float, float]]],
) -> None:
    ours = [day.instance_hours for day, _ in beside]
    assert ours == pytest.approx([hours for _, (hours, *_) in beside], rel=EXACT)


def test_callers_who_find_no_copy_are_those_of_the_event_simulation(
    beside: list[tuple[RehearsedDay, tuple[float, float, float, float]]],
) -> None:
    ours = [day.waiting for day, _ in beside]
    assert ours == pytest.approx([waiting for _, (_, waiting, *_) in beside], rel=EXACT)


def test_callers_who_give_up_are_those_of_the_event_simulation(
    beside: list[tuple[RehearsedDay, tuple[float, float, float, float]]],
) -> None:
    ours = sum(day.gave_up for day, _ in beside)
    assert ours == pytest.approx(sum(failed for _, (_, _, failed, _) in beside), rel=EXACT)


# What never sleeps is instances without components: they end at once.
def test_instance_hours_of_the_same_days_without_sleep_are_those_of_the_event_simulation() -> None:
    cases = [drawn(number) for number in CASES]
    ours = [rehearsed(case, sleeps=False).instance_hours for case in cases]
    awake = [
        replace(
            case,
            policy=replace(
                case.policy, sleep_after_minutes=1_500, least=1, empty_seconds=0.0, office=None
            ),
        )
        for case in cases
    ]
    assert ours == pytest.approx([simulated(case, moments=1)[0] for case in awake], rel=EXACT)
