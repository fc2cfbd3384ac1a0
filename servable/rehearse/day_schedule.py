"""A schedule made from a day: as many instances as each part of it needs, before it needs them."""

import math
from collections.abc import Sequence
from statistics import NormalDist

from servable_scaling.rehearsal.day import LATENCY_MARGIN, MOST_REFUSED_SHARE
from servable_scaling.rehearsal.fleet import SECONDS, QueuedFleet
from servable_scaling.rehearsal.scenario import Scenario
from servable_scaling.rehearsal.traffic import DAY_SIGMA, MINUTE_SIGMA, MINUTES, SHIFT_MINUTES

# Choices of ours: parts of half an hour, at most eight changes a day, and room for the largest of forty days.
PART_MINUTES, MOST_CHANGES = 30, 8
_LARGER = math.exp(NormalDist(0, math.hypot(DAY_SIGMA, MINUTE_SIGMA)).inv_cdf(0.99))
# Utilisations that are tried, the highest first.
_USES = [percent / 100 for percent in range(95, 5, -5)]


def schedule_of(planned: Scenario, *, least: int, most: int) -> str:
    """The TOML of the key `schedule`, by the time of day in UTC. `planned`: the day at its slowest pace."""
    per_instance = _use(planned) * planned.model.rate_rps * SECONDS / _LARGER
    needed = [least] * MINUTES
    lead = planned.start_minutes + 1
    for minute, requests in enumerate(planned.requests):
        count = min(most, max(least, math.ceil(requests / per_instance - 1e-9)))
        if count > least:
            for at in range(minute - SHIFT_MINUTES - lead, minute + SHIFT_MINUTES + 1):
                needed[at % MINUTES] = max(needed[at % MINUTES], count)
    parts = [(at, max(needed[at : at + PART_MINUTES])) for at in range(0, MINUTES, PART_MINUTES)]
    actions = (
        f'{{ at = "cron({at % 60} {at // 60} * * ? *)", at_least = {count} }}'
        for at, count in _few(parts)
    )
    return f"[{', '.join(actions)}]"


def _use(planned: Scenario) -> float:
    """The highest utilisation at which an instance holds the objective, by what is computed of it."""
    model = planned.model
    for use in _USES:
        fleet = QueuedFleet(model, planned.routing, 2)
        served = fleet.serve(2 * use * model.rate_rps * SECONDS)
        limit = math.inf if planned.p99_ms is None else planned.p99_ms / 1000 / (1 + LATENCY_MARGIN)
        slow = model.slower(served.parts, limit)
        refused = served.refused / (2 * use * model.rate_rps * SECONDS)
        if max(slow, refused) < MOST_REFUSED_SHARE / 2:
            return use
    return _USES[-1]


def _few(parts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """(minute, instances from then on): changes alone, and the cheapest to leave out are left out."""
    kept = [part for number, part in enumerate(parts) if part[1] != parts[number - 1][1]]
    while len(kept) > MOST_CHANGES:
        number = min(
            range(len(kept)), key=[_dearer(kept, at) for at in range(len(kept))].__getitem__
        )
        kept[number] = (kept[number][0], _larger(kept, number))
        kept = [part for at, part in enumerate(kept) if part[1] != kept[at - 1][1]]
    return kept


def _larger(parts: Sequence[tuple[int, int]], number: int) -> int:
    """The smaller of the parts beside this one that are larger; the part's own count where none is."""
    beside = (parts[number - 1][1], parts[(number + 1) % len(parts)][1])
    return min((count for count in beside if count > parts[number][1]), default=parts[number][1])


def _dearer(parts: Sequence[tuple[int, int]], number: int) -> float:
    """Instance minutes that are added where this part has as many as the larger one beside it."""
    begin, count = parts[number]
    more = _larger(parts, number) - count
    lasts = (parts[(number + 1) % len(parts)][0] - begin) % MINUTES
    return more * lasts if more else math.inf
