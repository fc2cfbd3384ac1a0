"""Share of right verdicts of `servable rehearse`, compared with a simulation of every request.

A case is drawn: a day of eight hours, an instance, a policy, a start time, and a metric delay. Its verdict is
compared with days like the given one, each with requests of its own. The objective is met if the simulation
finds at most one broken minute a day on the average.
"""

import json
import math
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from click.testing import CliRunner

from servable.rehearse.command import rehearse
from tests.verdicts.day_simulation import Z99, DayCase
from tests.verdicts.day_simulation import simulate as simulate_day

MINUTES, MOST_BROKEN, MOST_RPS = 8 * 60, 1.0, 12.0
# Days like the given one: their size, shift, and noise, which lasts for some minutes.
SIZE, SHIFT_MINUTES, NOISE, MEMORY_MINUTES = 0.1, 30, 0.05, 10
FRESH_DAYS = 10


def draw_case(source: random.Random) -> DayCase:
    """Draw a case; some meet the objective, some don't, and some are near the border."""
    p50 = source.uniform(0.08, 0.4)
    spread, servers = source.uniform(1.05, 3.5), source.choice((1, 2, 4))
    factor, at_peak = source.choice((0.3, 0.4, 0.5, 0.6, 0.7)), source.uniform(0.8, 6.0)
    # A simulation of millions of requests takes minutes: where more would come, each takes longer.
    p50 *= max(1.0, at_peak * factor * servers / p50 / MOST_RPS)
    rate = servers / (p50 * math.exp((math.log(spread) / Z99) ** 2 / 2))
    most = at_peak * rate * factor
    return DayCase(
        requests=tuple(60 * most * each for each in draw_shape(source)),
        servers=servers,
        p50_seconds=p50,
        p99_seconds=p50 * spread,
        least_outstanding=source.random() < 0.7,
        minimum=source.randint(1, 3),
        maximum=12,
        target=60 * rate * factor,
        out_cooldown_seconds=source.choice((60, 210, 300)),
        in_cooldown_seconds=source.choice((300, 600)),
        start_seconds=source.choice((180, 240, 300, 420)),
        delay_seconds=source.choice((0, 60, 120, 180)),
        rate_rps=rate,
        safety_factor=factor,
        p99_ms=round(1000 * p50 * spread * math.exp(source.uniform(0.1, 2.5))),
    )


def draw_shape(source: random.Random) -> list[float]:
    """Draw a hump, a ramp, steps, or a spike, as shares of the peak."""
    kind, low = source.choice(("hump", "ramp", "steps", "spike")), source.uniform(0.1, 0.6)
    middle, width = source.uniform(0.3, 0.7) * MINUTES, source.uniform(30, 120)
    levels = [source.uniform(0.3, 1.0) for _ in range(4)]
    shapes: dict[str, Callable[[int], float]] = {
        "hump": lambda at: low + (1 - low) * math.exp(-(((at - middle) / width) ** 2)),
        "ramp": lambda at: low + (1 - low) * min(1.0, max(0.0, (at - middle / 2) / width)),
        "steps": lambda at: levels[at * 4 // MINUTES],
        "spike": lambda at: 1.0 if middle <= at < middle + width / 3 else low,
    }
    return [shapes[kind](at) for at in range(MINUTES)]


def ask_verdict(case: DayCase) -> tuple[str, int]:
    """Run `servable rehearse`; return its verdict and the number of instances at the beginning."""
    scaling = "variants.primary.scaling"
    keys = {
        "variants.primary.min_instances": case.minimum,
        "variants.primary.max_instances": case.maximum,
        "variants.primary.start_seconds": case.start_seconds,
        "variants.primary.routing": "least_outstanding_requests"
        if case.least_outstanding
        else "random",
        f"{scaling}.max_rps_per_instance": case.rate_rps,
        f"{scaling}.safety_factor": case.safety_factor,
        f"{scaling}.scale_out_cooldown_seconds": case.out_cooldown_seconds,
        f"{scaling}.scale_in_cooldown_seconds": case.in_cooldown_seconds,
        f"{scaling}.metric_delay_seconds": case.delay_seconds,
        "traffic.peak_rps": max(case.requests) / 60,
        "traffic.quiet_rps": min(case.requests) / 60,
        "alarms.p99_latency_ms": case.p99_ms,
    }
    with tempfile.TemporaryDirectory() as folder:
        day = Path(folder, "day.csv")
        rows = [f"{minute},{requests}" for minute, requests in enumerate(case.requests)]
        day.write_text("\n".join(["minute,requests", *rows]) + "\n", encoding="utf-8")
        measured = (case.rate_rps, 1000 * case.p50_seconds, 1000 * case.p99_seconds)
        options = [f"--set=prod.{key}={value}" for key, value in keys.items()]
        options += [f"--per-instance={','.join(map(str, measured))}", f"--day={day}"]
        options.append(f"--output={folder}")
        ran = CliRunner().invoke(rehearse, ["prod", *options, "--json"], standalone_mode=False)
    if ran.exception:
        raise ran.exception
    result = json.loads(ran.stdout)
    return result["verdict"], result["minutes"][0]["answering"]


def draw_day(requests: tuple[float, ...], source: random.Random) -> list[float]:
    """Draw a day like the given one: larger or smaller, earlier or later, with noise that lasts."""
    level, shift = source.gauss(0, SIZE), source.randint(-SHIFT_MINUTES, SHIFT_MINUTES)
    keeps, noise, day = math.exp(-1 / MEMORY_MINUTES), source.gauss(0, NOISE), []
    for minute in range(len(requests)):
        day.append(math.exp(level + noise) * requests[(minute - shift) % len(requests)])
        noise = keeps * noise + source.gauss(0, NOISE * math.sqrt(1 - keeps**2))
    return day


def judge_case(job: tuple[int, int]) -> tuple[bool, str]:
    """Return whether the simulation meets the objective, and the verdict."""
    case = draw_case(random.Random("{} {}".format(*job)))
    verdict, instances = ask_verdict(case)
    broken = []
    for day in range(FRESH_DAYS):
        requests = draw_day(case.requests, random.Random(f"{job} {day}"))
        broken.append(simulate_day(requests, case, instances=instances, seed=day))
    return statistics.fmean(broken) <= MOST_BROKEN, verdict


def run_trials(seed: int, count: int) -> Iterator[tuple[str, bool, list[str]]]:
    """Judge so many fresh cases; group the verdicts by what the simulation finds."""
    with ProcessPoolExecutor(2) as pool:
        found = [*pool.map(judge_case, [(seed, number) for number in range(count)])]
    for met, name in ((True, "at most one broken minute a day"), (False, "more broken minutes")):
        yield name, met, [verdict for simulated, verdict in found if simulated == met]
