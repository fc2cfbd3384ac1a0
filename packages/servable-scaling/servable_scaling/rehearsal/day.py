"""The simulation of a day, by the minute: traffic, fleet, metrics, policies and alarms.

day = rehearse(Scenario(...))
day.minutes[540].p99_ms, day.refused_requests, day.woken
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

from servable_scaling.alarms.alarm_state import AlarmRule
from servable_scaling.alarms.query import MetricQuery
from servable_scaling.autoscaling import AlarmChange, Autoscaling
from servable_scaling.rehearsal.fleet import (
    SECONDS,
    Part,
    QueuedFleet,
    ServedMinute,
    compute_percentile,
    compute_slower_share,
)
from servable_scaling.rehearsal.scenario import (
    EmptyInstances,
    PlacedDeployment,
    Scenario,
    Wait,
    WaitingCallers,
)
from servable_scaling.rehearsal.traffic import draw_whole_requests
from servable_scaling.scalable_target import ScalingActivity
from servable_scaling.target_scaler import ScaledResource

MINUTE = timedelta(minutes=1)
MICROSECONDS, MILLISECONDS = 1e6, 1e3


@dataclass(frozen=True)
class _Batch:
    """A batch of a rolling deployment: the minutes in which it starts, responds, and ends."""

    starts: int
    answers: int
    ends: int
    count: int


@dataclass(frozen=True)
class RehearsedMinute:
    """The responses and instances of one minute. `paid`: with starting ones and a second fleet."""

    requests: float
    answering: int
    paid: int
    use: float
    p50_ms: float | None
    p99_ms: float | None
    refused: float
    slower: float
    """The share of the requests that take longer than the objective."""
    breaks: float
    """The probability that so many requests, at random moments, break the objective in this minute."""
    waiting: float = 0.0
    """Requests that came while no copy ran: their callers wait for the first one."""
    asking: float = 0.0
    """Requests that found no copy: these, and the retries of callers."""
    late: float = 0.0
    """Requests that get a response in this minute, after a wait."""

    @property
    def arriving_requests(self) -> float:
        """Return the number of requests that reach a copy."""
        return self.requests - self.waiting + self.late


@dataclass
class RehearsedDay:
    """The result of a simulated day. `woken`: the minutes in which the composite alarm began to hold."""

    minutes: list[RehearsedMinute] = field(default_factory=list)
    activities: list[ScalingActivity] = field(default_factory=list)
    alarms: list[AlarmChange] = field(default_factory=list)
    woken: list[int] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)
    """Minutes outside of the objective: slower at p99, or with more than 1 % rejected."""
    deployed_with: int | None = None
    """Instances of the variant as the deployment began."""
    waits: list[Wait] = field(default_factory=list)
    """Callers who found no copy, and got a response from the next one."""
    gave_up: float = 0.0
    """Callers who waited for as long as they do and failed, or did not wait; `refused` includes them."""

    @property
    def waiting_callers(self) -> float:
        """Return the number of callers who found no copy."""
        return sum(minute.waiting for minute in self.minutes)

    @property
    def expected_broken_minutes(self) -> float:
        """Return the expected minutes outside of the objective if requests and latencies vary."""
        return sum(minute.breaks for minute in self.minutes)

    @property
    def refused_requests(self) -> float:
        return sum(minute.refused for minute in self.minutes)

    @property
    def instance_hours(self) -> float:
        return sum(minute.paid for minute in self.minutes) / 60


# Our choice: a minute is outside of the objective if a larger share is rejected, or is slower than p99
# allows.
MOST_REFUSED_SHARE = 0.01
# A computed latency may be wrong by so much: what is within it of the objective is not sure to hold. The
# queue is within 5 % of an event simulation's mean (docs/decisions/0052), its p99 within 10 %.
LATENCY_MARGIN = 0.1


@lru_cache(maxsize=100_000)
def compute_break_probability(requests: int, share: float) -> float:
    """Return the probability that more than 1 % of the requests break the objective.

    `share`: the expected share of such requests.
    """
    most, mean = math.floor(MOST_REFUSED_SHARE * requests), share * requests
    if mean <= 0 or mean < most - 8 * math.sqrt(most):
        return 0.0
    if mean > most + 8 * math.sqrt(most) + 20:
        return 1.0
    term = within = math.exp(-mean)
    for count in range(1, most + 1):
        term *= mean / count
        within += term
    return max(0.0, 1 - within)


def rehearse(scenario: Scenario) -> RehearsedDay:
    """Return a scenario's day. Raises `ScalingPropertyError`, `ScheduleError`, and ValueError."""
    simulation = _Simulation(scenario)
    day = draw_whole_requests(scenario.requests, 0) if scenario.sleep else scenario.requests
    for minute, requests in enumerate(day):
        simulation.scale(minute)
        simulation.deploy(minute)
        simulation.serve(minute, requests)
    return simulation.day


class _SimulatedMetrics:
    """The metrics of the minutes that are over, as `MetricValues`."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.minutes: list[RehearsedMinute] = []
        self.served: list[tuple[Part, ...]] = []

    def compute_value(self, query: MetricQuery, start: datetime, end: datetime) -> float | None:
        first = int((start - self.scenario.begins) // MINUTE)
        last = max(first + 1, math.ceil((end - self.scenario.begins) / MINUTE))
        if first < 0 or first >= len(self.minutes):
            return None
        if last == first + 1 and end - start == MINUTE:
            return self._read_minute(query, first)  # of a whole minute every statistic is its value
        values = [self._read_minute(query, at) for at in range(first, min(last, len(self.minutes)))]
        numbers = [number for number in values if number is not None]
        if not numbers:
            return None
        if query.statistic == "Sum":
            return sum(numbers) * min(1.0, (end - start) / MINUTE)
        return max(numbers) if query.statistic == "Maximum" else sum(numbers) / len(numbers)

    def count_samples(self, query: MetricQuery, start: datetime, end: datetime) -> float:
        first = int((start - self.scenario.begins) // MINUTE)
        last = math.ceil((end - self.scenario.begins) / MINUTE)
        return sum(minute.requests for minute in self.minutes[max(0, first) : max(0, last)])

    def _read_minute(self, query: MetricQuery, at: int) -> float | None:
        minute, name = self.minutes[at], query.metric.name
        if name == "Invocations":
            return minute.requests
        if name in ("InvocationsPerInstance", "InvocationsPerCopy"):
            # A request finds a copy or none; in a part of a minute it more likely came in the larger part.
            arriving = (
                round(minute.arriving_requests) if self.scenario.sleep else minute.arriving_requests
            )
            return arriving / minute.answering if minute.answering else None
        if name == "NoCapacityInvocationFailures":
            return round(minute.asking) or None
        if name == "Invocation5XXErrors":
            return minute.refused / minute.requests if minute.requests else None
        concurrent = ("ConcurrentRequestsPerModel", "ConcurrentRequestsPerCopy")
        if name not in ("ModelLatency", *concurrent) or not self.served[at]:
            return None
        if name == "ModelLatency" and not minute.requests:
            return None
        parts, service = self.served[at], self.scenario.model.service
        if query.statistic.startswith("p"):
            share = float(query.statistic[1:]) / 100
            return compute_percentile(service, parts, share) * MICROSECONDS
        waiting = sum(part * (delay + waits * each) for part, delay, waits, each in parts)
        mean = service.mean_seconds + waiting
        if name == "ModelLatency":
            return mean * MICROSECONDS
        return minute.arriving_requests / SECONDS / minute.answering * mean


class _Simulation:
    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.measured = _SimulatedMetrics(scenario)
        self.day = RehearsedDay(self.measured.minutes)
        self.scaling = Autoscaling(
            targets=scenario.targets,
            policies=scenario.policies,
            alarms=scenario.alarms,
            created=scenario.begins,
            metric_delay_seconds=scenario.metric_delay_seconds,
        )
        self.fleet = QueuedFleet(scenario.model, scenario.routing, scenario.instances)
        self.second: QueuedFleet | None = None
        self.batches: list[_Batch] = []
        self.desired = scenario.instances
        self.starting: list[tuple[float, int]] = []  # (ready, count)
        sleep = scenario.sleep
        self.empty = EmptyInstances(sleep.empty_minutes if sleep else 0)
        self.callers = WaitingCallers(sleep) if sleep else None
        self.page = AlarmRule(scenario.page) if scenario.page else None
        self.paging = False
        self.shares: tuple[float, ...] = ()

    def scale(self, minute: int) -> None:
        """Evaluate alarms, policies, and schedules at the start of a minute, and change the fleet."""
        # A first copy comes in `_wait`, behind the alarms.
        if self.callers is None or self.fleet.count:
            self._add_started(minute)
        deploying = self.second is not None or bool(self.batches)
        # Observed: while instances start or end the endpoint is Updating, so that nothing else scales.
        updating = deploying or bool(self.starting)
        state = ScaledResource(self.desired, self.fleet.count, updating)
        at = self.scenario.begins + minute * MINUTE
        step = self.scaling.advance(at, self.measured, {self.scenario.resource: state})
        self.day.activities += step.activities
        self.day.alarms += step.changed
        if self.page is not None:
            states = self.scaling.alarms
            holds = self.page.is_met(lambda name: states[name].state)
            if holds and not self.paging:
                self.day.woken.append(minute)
            self.paging = holds
        if self.scenario.resource in step.desired:
            self._set_capacity(step.desired[self.scenario.resource], minute)

    def _add_started(self, until: float) -> None:
        self.fleet.add(sum(count for when, count in self.starting if when <= until))
        self.starting = [(when, count) for when, count in self.starting if when > until]

    def _set_capacity(self, capacity: int, minute: int) -> None:
        more, self.desired = capacity - self.desired, capacity
        if more > 0 and (sleep := self.scenario.sleep) is not None:
            there = self.empty.take(more, minute)
            starts = ((sleep.copy_start_seconds, there), (sleep.start_seconds, more - there))
            self.starting += [(minute + seconds / SECONDS, n) for seconds, n in starts if n]
        elif more > 0:
            self.starting.append((minute + self.scenario.start_minutes, more))
        elif more < 0:
            # Chosen: removed instances stop answering at once, and their removal succeeds a minute later
            waiting = sum(count for _, count in self.starting)
            ending = max(0, self.fleet.count + waiting - capacity)
            self.fleet.remove(ending)
            self.empty.add(ending if self.scenario.sleep else 0, minute)

    def deploy(self, minute: int) -> None:
        """Start, shift, and end the fleets of the deployment, if there is one."""
        plan = self.scenario.deployment
        if plan is None or minute < plan.minute:
            return
        if minute == plan.minute:
            self.day.deployed_with = self.desired
        if plan.batch_percent is not None:
            self._roll_batches(plan, plan.batch_percent, minute)
            return
        if minute == plan.minute:
            self.shares = plan.by_count.get(self.desired, plan.shares)
            self.second = QueuedFleet(self.scenario.model, self.scenario.routing, 0)
        begins = plan.minute + self.scenario.start_minutes
        last = plan.bake_minutes if plan.last_bake_minutes is None else plan.last_bake_minutes
        ends = begins + (len(self.shares) - 1) * plan.bake_minutes + last
        if self.second is None:
            return
        if minute == begins:
            self.second.add(self.desired)
        if minute >= ends and self.second.count:
            self.fleet, self.second = self.second, None
            self.starting.clear()  # they were the old fleet's

    def _roll_batches(self, plan: PlacedDeployment, percent: float, minute: int) -> None:
        if minute == plan.minute:
            remaining, at = self.desired, minute
            while remaining:
                count = min(remaining, math.ceil(self.desired * percent / 100))
                answers = at + self.scenario.start_minutes
                self.batches.append(_Batch(at, answers, answers + plan.bake_minutes, count))
                remaining, at = remaining - count, self.batches[-1].ends
        for batch in self.batches:
            if batch.answers == minute:
                self.fleet.add(batch.count)
            if batch.ends == minute:
                self.fleet.remove(batch.count)
        self.batches = [batch for batch in self.batches if batch.ends > minute]

    def _compute_second_share(self, minute: int) -> float:
        """Return the share of the traffic that goes to the second fleet."""
        plan = self.scenario.deployment
        if plan is None or self.second is None or not self.second.count:
            return 0.0
        passed = minute - plan.minute - self.scenario.start_minutes
        step = passed // max(1, plan.bake_minutes)
        return self.shares[min(step, len(self.shares) - 1)] / 100

    def _simulate_waiting(self, minute: int, requests: float) -> tuple[float, float, float, float]:
        """Simulate the callers who wait for a copy, and return four numbers of requests.

        They are: requests that find no copy, all that request one, those that get a late
        response, and those that give up.
        """
        callers = self.callers
        if callers is None or self.fleet.count:
            return 0.0, 0.0, 0.0, 0.0
        awake = max(minute, min((when for when, _ in self.starting), default=math.inf))
        until = min(awake, minute + 1.0)
        found_none = requests * (until - minute)
        callers.add(minute, until, found_none)
        asking, failed = callers.count if until > minute else 0.0, callers.remove_expired(until)
        if awake >= minute + 1:
            return found_none, asking, 0.0, failed
        self._add_started(awake)
        waits = callers.release_all(awake)
        self.day.waits += waits
        return found_none, asking, sum(wait.callers for wait in waits), failed

    def serve(self, minute: int, requests: float) -> None:
        """Serve the minute's requests, and record the minute."""
        share = self._compute_second_share(minute)
        found_none, asking, late, failed = self._simulate_waiting(minute, requests)
        arriving = requests - found_none + late
        served = [(1 - share, self.fleet.serve(arriving * (1 - share)))]
        if self.second is not None and self.second.count:
            served.append((share, self.second.serve(arriving * share)))
        waiting = sum(count for _, count in self.starting)
        both = 0 if self.second is None else max(self.second.count, self.desired)
        answering = self.fleet.count + (self.second.count if self.second else 0)
        self.measured.served.append(_combine_parts(served))
        parts = self.measured.served[-1]
        service = self.scenario.model.service
        p50, p99 = (
            compute_percentile(service, parts, percent) * MILLISECONDS
            if parts and arriving and self.scenario.latencies
            else None
            for percent in (0.5, 0.99)
        )
        refused = min(arriving, sum(each.refused for _, each in served)) + failed
        self.day.gave_up += failed
        use = max(each.use for _, each in served)
        rolling = sum(each.count for each in self.batches if each.starts <= minute < each.answers)
        paid = self.fleet.count + waiting + both + rolling + self.empty.count_paid(minute)
        slower, slower_at_worst = self._compute_slower_shares(parts, arriving)
        share = refused / arriving if arriving else 0.0
        counted = round(arriving)
        breaks = 1 - (1 - compute_break_probability(counted, slower_at_worst)) * (
            1 - compute_break_probability(counted, share)
        )
        if failed > MOST_REFUSED_SHARE * arriving:
            breaks = 1.0  # nothing of it is left to chance
        numbers = (use, p50, p99, refused, round(slower, 6), round(breaks, 6))
        recorded = RehearsedMinute(requests, answering, paid, *numbers, found_none, asking, late)
        self.day.minutes.append(recorded)
        if slower > MOST_REFUSED_SHARE or refused > MOST_REFUSED_SHARE * arriving:
            self.day.broken.append(minute)

    def _compute_slower_shares(
        self, parts: tuple[Part, ...], requests: float
    ) -> tuple[float, float]:
        """Return the share of requests slower than the objective, also with latencies at the margin."""
        most = self.scenario.p99_ms
        if most is None or not parts or not requests:
            return 0.0, 0.0
        seconds, service = most / MILLISECONDS, self.scenario.model.service
        return compute_slower_share(service, parts, seconds), round(
            compute_slower_share(service, parts, seconds / (1 + LATENCY_MARGIN)), 5
        )


def _combine_parts(served: Sequence[tuple[float, ServedMinute]]) -> tuple[Part, ...]:
    parts: dict[tuple[float, float, float], float] = {}
    for share, minute in served:
        for part, *rest in minute.parts:
            if share > 0:
                key = (rest[0], rest[1], rest[2])
                parts[key] = parts.get(key, 0.0) + share * part
    whole = sum(parts.values())
    return tuple((share / whole, *key) for key, share in parts.items())
