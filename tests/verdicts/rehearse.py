"""Share of right verdicts of `servable rehearse`, beside a simulation of every request.

A case is drawn: a day of eight hours, an instance, its queue, a policy, a start, a metric delay, bursts. Its
verdict is compared with fresh days: days like the given one, each with requests of its own. It says "holds"
rightly where the simulation finds at most one broken minute a day on the average.
"""

import math
import os
import random
import re
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from tests.checkouts import ROOT, Log
from benchmarks.verdicts.day_simulation import (
    SimulatedInstance,
    SimulatedPolicy,
    Surroundings,
    simulate,
)
from infra.parameters.loading import ValidFile, load_one
from infra.parameters.rehearsal_scenario import Incidents, MeasuredInstance
from servable.rehearse.alternatives import alternatives
from servable.rehearse.candidates import candidates
from servable.rehearse.comparison import compare
from servable.rehearse.rehearsal import Rehearsal, rehearsed, variant_of

MINUTES = 8 * 60
COMPARED = ("minimum=1,4", "schedule=none,day")
VERDICTS = ("holds", "does not hold", "cannot be told")
MOST_BROKEN, MOST_RPS = 1.0, 12.0
# Days like a given one, as `--compare` has them: the size, the shift and the noise are its own choices.
DAY_SIGMA, SHIFT_MINUTES, NOISE, MEMORY_MINUTES = 0.1, 30, 0.05, 10


@dataclass(frozen=True, kw_only=True)
class DayCase:
    """The case that `servable rehearse` and the simulation are both given."""

    requests: tuple[float, ...]
    instance: SimulatedInstance
    policy: SimulatedPolicy
    around: Surroundings
    safety_factor: float
    p99_ms: float

    @property
    def rate_rps(self) -> float:
        sigma = math.log(self.instance.p99_seconds / self.instance.p50_seconds) / 2.3263478740408408
        return self.instance.servers / (self.instance.p50_seconds * math.exp(sigma**2 / 2))


def drawn(source: random.Random) -> DayCase:
    """A case of which some hold, some do not, and some are near the border."""
    p50 = source.uniform(0.08, 0.4)
    p99 = p50 * source.uniform(1.05, 3.5)
    servers = source.choice((1, 2, 4))
    factor = source.choice((0.3, 0.4, 0.5, 0.6, 0.7))
    at_peak = source.uniform(0.8, 6.0)
    # A simulation of millions of requests takes minutes: where more would come, each takes longer.
    longer = max(1.0, at_peak * factor * servers / p50 / MOST_RPS)
    instance = SimulatedInstance(
        servers=servers,
        p50_seconds=longer * p50,
        p99_seconds=longer * p99,
        places=source.choice((16, 60, 200)),
        least_outstanding=source.random() < 0.7,
    )
    minimum = source.randint(1, 3)
    case = DayCase(
        requests=(),
        instance=instance,
        policy=SimulatedPolicy(
            minimum=minimum,
            maximum=12,
            out_cooldown_seconds=source.choice((60, 210, 300)),
            in_cooldown_seconds=source.choice((300, 600)),
        ),
        around=Surroundings(
            start_seconds=source.choice((180, 240, 300, 420)),
            delay_seconds=source.choice((0, 60, 120, 180)),
            peak=source.choice((1.0, 1.0, 1.5, 2.0, 2.5)),
            burst_seconds=source.choice((1.0, 2.0, 5.0)),
        ),
        safety_factor=factor,
        p99_ms=round(1000 * longer * p99 * math.exp(source.uniform(0.1, 2.5))),
    )
    rate = case.rate_rps
    most = at_peak * rate * factor
    shape = source.choice((_hump, _ramp, _steps, _spike))
    requests = tuple(60 * most * each for each in shape(source))
    policy = SimulatedPolicy(
        **{**vars(case.policy), "target": 60 * rate * factor, "maximum": 12},
    )
    return DayCase(**{**vars(case), "requests": requests, "policy": policy})


def _hump(source: random.Random) -> list[float]:
    low, middle = source.uniform(0.1, 0.6), source.uniform(0.3, 0.7)
    width = source.uniform(40, 120)
    return [
        low + (1 - low) * math.exp(-(((at - middle * MINUTES) / width) ** 2))
        for at in range(MINUTES)
    ]


def _ramp(source: random.Random) -> list[float]:
    low, begin, lasts = source.uniform(0.1, 0.6), source.uniform(60, 120), source.uniform(30, 240)
    return [low + (1 - low) * min(1.0, max(0.0, (at - begin) / lasts)) for at in range(MINUTES)]


def _steps(source: random.Random) -> list[float]:
    levels = [source.uniform(0.3, 1.0) for _ in range(4)]
    return [levels[at * 4 // MINUTES] for at in range(MINUTES)]


def _spike(source: random.Random) -> list[float]:
    low, begin = source.uniform(0.3, 0.9), source.randint(90, 360)
    lasts = source.randint(5, 40)
    return [1.0 if begin <= at < begin + lasts else low for at in range(MINUTES)]


def given(case: DayCase) -> tuple[ValidFile, MeasuredInstance]:
    """The case as its environment file's keys, and the instance as it was measured."""
    around, policy, table = case.around, case.policy, "variants.primary"
    sets = {
        f"{table}.min_instances": str(policy.minimum),
        f"{table}.max_instances": str(policy.maximum),
        f"{table}.start_seconds": str(around.start_seconds),
        f"{table}.routing": "least_outstanding_requests"
        if case.instance.least_outstanding
        else "random",
        f"{table}.scaling.max_rps_per_instance": repr(case.rate_rps),
        f"{table}.scaling.safety_factor": str(case.safety_factor),
        f"{table}.scaling.scale_out_cooldown_seconds": str(policy.out_cooldown_seconds),
        f"{table}.scaling.scale_in_cooldown_seconds": str(policy.in_cooldown_seconds),
        f"{table}.scaling.metric_delay_seconds": str(around.delay_seconds),
        "traffic.peak_rps": repr(max(case.requests) / 60),
        "traffic.quiet_rps": repr(min(case.requests) / 60),
        "traffic.peak_to_mean": str(around.peak),
        "traffic.burst_seconds": str(around.burst_seconds),
        "alarms.p99_latency_ms": str(case.p99_ms),
    }
    loaded = load_one(ROOT, ROOT / "environments", "prod", sets, "--set")
    assert isinstance(loaded, ValidFile), loaded.findings
    instance = MeasuredInstance(
        rate_rps=case.rate_rps,
        p50_ms=1000 * case.instance.p50_seconds,
        p99_ms=1000 * case.instance.p99_seconds,
        source="drawn",
    )
    return loaded, instance


def judged(case: DayCase) -> Rehearsal:
    """The verdict of `servable rehearse` on the case."""
    loaded, instance = given(case)
    placed = variant_of(loaded, "primary")
    return rehearsed(
        loaded, placed, case.requests, instance, Incidents(), waiting=case.instance.places
    )


def best_of(case: DayCase, result: Rehearsal) -> tuple[str, DayCase, int] | None:
    """(the best of some policies, the case with it, the instances at first); None where none is named."""
    loaded, instance = given(case)
    placed, folder = variant_of(loaded, "primary"), ROOT / "environments"
    several = alternatives(COMPARED, placed, result.scenario)
    running, _, _ = candidates(
        loaded, folder, placed, several, case.requests, instance, Incidents(), None
    )
    running = [
        replace(
            trial,
            scenario=replace(
                trial.scenario, model=replace(trial.scenario.model, queue=case.instance.places)
            ),
        )
        for trial in running
    ]
    compared = compare(running, days=20, allowed_minutes=0, left_out={}, progress=lambda *_: None)
    if compared.best is None:
        return None
    planned = compared.best.trial.scenario
    (target,), (policy,) = planned.targets.values(), planned.policies.values()
    schedule = tuple(
        (int(hour) * 60 + int(minute), int(action["ScalableTargetAction"]["MinCapacity"]))
        for action in target.get("ScheduledActions", ())
        for minute, hour in [re.findall(r"\d+", action["Schedule"])[:2]]
    )
    chosen = replace(
        case.policy,
        minimum=target["MinCapacity"],
        target=policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"],
        schedule=schedule,
    )
    label = compared.best.trial.alternative.label
    return label, replace(case, policy=chosen), planned.instances


def fresh_day(requests: tuple[float, ...], source: random.Random) -> list[float]:
    """A day like the given one: larger or smaller, earlier or later, with noise that lasts."""
    level, shift = source.gauss(0, DAY_SIGMA), source.randint(-SHIFT_MINUTES, SHIFT_MINUTES)
    keeps, noise = math.exp(-1 / MEMORY_MINUTES), source.gauss(0, NOISE)
    day = []
    for minute in range(len(requests)):
        day.append(math.exp(level + noise) * requests[(minute - shift) % len(requests)])
        noise = keeps * noise + source.gauss(0, NOISE * math.sqrt(1 - keeps**2))
    return day


def broken_minutes(case: DayCase, instances: int, days: int, seed: int) -> list[int]:
    """Broken minutes of each fresh day."""
    return [
        simulate(
            fresh_day(case.requests, random.Random(f"{seed} {day}")),
            case.instance,
            case.policy,
            case.around,
            instances=instances,
            p99_seconds=case.p99_ms / 1000,
            seed=seed * 1_000 + day,
        ).broken
        for day in range(days)
    ]


def _case(job: tuple[int, int, int]) -> dict[str, Any]:
    seed, number, days = job
    case = drawn(random.Random(f"{seed} {number}"))
    result, own = judged(case), seed * 1_000 + number
    # Where it says "holds" every day counts; elsewhere a few show whether it was wrong.
    count = days if result.verdict == "holds" else min(days, 5)
    minutes = broken_minutes(case, result.scenario.instances, count, own)
    return {
        "case": number,
        "verdict": result.verdict,
        "expected": round(result.day.expected_broken, 2),
        "similar": round(statistics.fmean(result.similar), 2) if result.similar else None,
        "simulated": statistics.fmean(minutes),
        "about": f"{case.instance} {case.around} {case.safety_factor} {case.p99_ms}",
    }


def _compared(seed: int, number: int, days: int) -> dict[str, Any]:
    """Whether the policy that a comparison names best holds the objective on fresh days."""
    case = drawn(random.Random(f"{seed} compared {number}"))
    best = best_of(case, judged(case))
    row: dict[str, Any] = {"case": number, "best": None, "days": days}
    if best is not None:
        label, with_best, instances = best
        minutes = broken_minutes(with_best, instances, days, seed * 1_000 + 500 + number)
        held = sum(broken == 0 for broken in minutes)
        row |= {"best": label, "held": held, "simulated": statistics.fmean(minutes)}
    return row


def measured(seed: int, cases: int, compared: int, days: int, log: Log) -> dict[str, Any]:
    """All rows, of verdicts and of comparisons, each of which uses every core."""
    verdicts, named = [], []
    with ProcessPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        for row in pool.map(_case, [(seed, number, days) for number in range(cases)]):
            log(f"{row}")
            verdicts.append(row)
    for number in range(compared):
        named.append(_compared(seed, number, days))
        log(f"{named[-1]}")
    return {"days": days, "verdicts": verdicts, "compared": named}


def wrong(row: dict[str, Any]) -> bool:
    """Whether the simulation says the contrary of a verdict."""
    broken = row["simulated"] > MOST_BROKEN
    return bool(row["verdict"] == ("holds" if broken else "does not hold"))


def fields(result: dict[str, Any]) -> dict[str, str]:
    """The fields of docs/verdicts.md."""
    by_verdict = {
        verdict: [row for row in result["verdicts"] if row["verdict"] == verdict]
        for verdict in VERDICTS
    }
    rows = [
        f"| {verdict} | {len(each)} | {sum(map(wrong, each)) if verdict != VERDICTS[2] else ''} | "
        f"{max((row['simulated'] for row in each), default=0):.1f} |"
        for verdict, each in by_verdict.items()
    ]
    named = [row for row in result["compared"] if row["best"] is not None]
    if result["compared"]:
        held = ", ".join(str(row["held"]) for row in named) or "none"
        rows.append(
            f"\n{len(named)} of {len(result['compared'])} comparisons named a best; days held of "
            f"{result['days']}: {held}."
        )
    holds, breaks = by_verdict["holds"], by_verdict["does not hold"]
    return {
        "rehearse_green": f"{sum(map(wrong, holds))} of {len(holds)} days",
        "rehearse_red": f"{sum(map(wrong, breaks))} of {len(breaks)} days",
        "rehearse_rows": "\n".join(rows),
    }
