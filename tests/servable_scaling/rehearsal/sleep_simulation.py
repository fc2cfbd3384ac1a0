"""A day of copies that sleep, event by event, written apart from `servable_scaling`: its oracle.

Every caller has a moment, asks again while no copy runs, and gives up; every instance has a begin and an end.
Alarms follow https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html,
policies https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html and
target-tracking-scaling-policy-overview.html, zeros without traffic
https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-policy.html (2026-11-23). Nothing here
is imported from what it judges. Queues play no part: hours and waiting callers do not depend on them.
"""

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

MINUTE = 60.0
# Datapoints that an alarm looks at beyond its periods, as in AWS's example (5 for 3).
MORE_LOOKED_AT = 2
TRACKED_HIGH, TRACKED_LOW, LOW_SHARE, GRADUAL = 3, 15, 0.9, 0.1
ASKS_AGAIN = 10.0


@dataclass(frozen=True, kw_only=True)
class SimulatedSleep:
    """`target`: requests a minute and copy; `office`: the minutes from and to which one copy runs."""

    sleep_after_minutes: int
    most: int
    start_seconds: float
    copy_start_seconds: float
    delay_seconds: float
    wake_seconds: float
    target: float | None = None
    out_cooldown: float = 60.0
    in_cooldown: float = 60.0
    wake_cooldown: float = 60.0
    empty_seconds: float = 600.0
    office: tuple[int, int] | None = None
    least: int = 0


@dataclass
class SleptDay:
    instance_seconds: float = 0.0
    waiting: int = 0
    gave_up: int = 0
    waits: list[float] = field(default_factory=list)


def breaching(points: Sequence[bool | None], periods: int, *, fills: bool) -> bool:
    """Whether an alarm on each of so many periods is in ALARM. `fills`: what is missing is not breaching.

    Else what is missing is missing: all that is there breaches, and the oldest is as old as the periods.
    """
    looked = list(points[-periods - MORE_LOOKED_AT :])
    there = [point for point in looked if point is not None]
    if len(there) >= periods:
        return all(there[-periods:])
    if fills or not there or not all(there):
        return False
    return len(looked) >= periods and looked[-periods] is not None


class _Day:
    """One day; `run` is the whole of it."""

    def __init__(self, policy: SimulatedSleep, minutes: int, copies: int) -> None:
        self.policy, self.day, self.minutes = policy, SleptDay(), minutes
        self.copies = self.desired = copies
        self.least = policy.least
        self.starts: list[float] = []
        self.begun = [0.0] * copies  # of instances that have a copy, or will have one
        self.empty: list[tuple[float, float]] = []  # (begun, emptied)
        self.sent = [0.0] * minutes  # sum of 1 / copies
        self.failed = [0] * minutes
        self.there = [False] * minutes
        self.blocked_in = -math.inf
        # Policy to (end of the cooldown, capacity before and wanted by what began it).
        self.blocked_out: dict[str, tuple[float, int, int]] = {}
        self.changing: tuple[str, int] | None = None  # what changes by, from how many

    def run(self, moments: Sequence[float]) -> SleptDay:
        policy = self.policy
        # (when, kind, first asked): looks come before requests of the same moment.
        events = [(minute * MINUTE, 0, 0.0) for minute in range(self.minutes)]
        events += [(moment, 2, moment) for moment in moments]
        events += [((minute + 1) * MINUTE, -1, float(minute)) for minute in range(self.minutes)]
        heapq.heapify(events)
        end = self.minutes * MINUTE
        while events:
            now, kind, first = heapq.heappop(events)
            if now > end:
                break
            self._start(now)
            if kind < 0:
                self.there[int(first)] = self.copies > 0
            elif kind == 0:
                self._look(now)
            elif self.copies:
                self.sent[int(now // MINUTE)] += 1 / self.copies
                if now > first:
                    self.day.waits.append(now - first)
            else:
                self.failed[int(now // MINUTE)] += 1
                self.day.waiting += now == first
                left = first + policy.wake_seconds - now
                if left <= 0:
                    self.day.gave_up += 1
                else:
                    heapq.heappush(events, (now + min(ASKS_AGAIN, left), 2, first))
        self.day.instance_seconds += sum(end - begun for begun in self.begun)
        for begun, emptied in self.empty:
            self.day.instance_seconds += min(end, emptied + policy.empty_seconds) - begun
        return self.day

    def _start(self, now: float) -> None:
        while self.starts and self.starts[0] <= now:
            heapq.heappop(self.starts)
            self.copies += 1
        if self.changing is not None and not self.starts:
            (name, before), self.changing = self.changing, None
            self._cool(name, before, now)

    def _cool(self, name: str, before: int, now: float) -> None:
        policy = self.policy
        if self.desired < before:
            self.blocked_in = now + policy.in_cooldown
        else:
            seconds = policy.wake_cooldown if name == "wake" else policy.out_cooldown
            self.blocked_out[name] = (now + seconds, before, self.desired)

    def _look(self, now: float) -> None:
        """Once a minute: what is planned, and alarms over the datapoints that are seen by now."""
        policy, minute = self.policy, int(now // MINUTE)
        if self.starts:
            # "Auto scaling is blocked while the update operation is in progress": what is planned too.
            # https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html (2026-11-28)
            return
        if policy.office is not None:
            if minute == policy.office[0]:
                self.least = 1
            elif minute == policy.office[1]:
                self.least = policy.least
        if self.desired < self.least:
            self._set("schedule", self.least, now)
            return
        seen = max(0, int((now - policy.delay_seconds) // MINUTE))
        first = max(0, seen - max(policy.sleep_after_minutes, TRACKED_LOW) - MORE_LOOKED_AT)
        looked = range(first, seen)
        sent = [self.sent[at] if self.there[at] or self.sent[at] else None for at in looked]
        failed = [self.failed[at] or None for at in looked]
        out, inward = self._outward(sent, failed, now), self._inward(sent)
        if out:
            name, wanted = max(out, key=lambda each: each[1])
            if min(wanted, policy.most) > self.desired:
                self.blocked_in = -math.inf
                self._set(name, min(wanted, policy.most), now)
        elif inward and now >= self.blocked_in:
            wanted = max(self.least, *inward)
            if wanted < self.desired:
                self._set("in", wanted, now)

    def _outward(
        self, sent: Sequence[float | None], failed: Sequence[int | None], now: float
    ) -> list[tuple[str, int]]:
        target, wants = self.policy.target, []
        if breaching([None if count is None else True for count in failed], 1, fills=True):
            wants.append(("wake", self.desired + 1, 1))
        if target is not None:
            high = [None if value is None else value > target for value in sent]
            if breaching(high, TRACKED_HIGH, fills=False):
                newest = [value for value in sent if value is not None][-1]
                wants.append(("track", math.ceil(self.desired * newest / target - 1e-9), 0))
        allowed = []
        for name, wanted, adds in wants:
            until, before, reached = self.blocked_out.get(name, (-math.inf, 0, 0))
            if now < until:
                # What was added is a part of what is wanted.
                newest = before + 1 if adds else math.ceil(before * wanted / self.desired - 1e-9)
                if newest <= reached:
                    continue
                wanted = newest
            if wanted > self.desired:
                allowed.append((name, wanted))
        return allowed

    def _inward(self, sent: Sequence[float | None]) -> list[int]:
        target, wants = self.policy.target, []
        quiet = [None if value is None else value <= 0 for value in sent]
        if self.desired and breaching(quiet, self.policy.sleep_after_minutes, fills=True):
            wants.append(0)
        if target is not None and self.desired:
            low = [None if value is None else value < LOW_SHARE * target for value in sent]
            if breaching(low, TRACKED_LOW, fills=False):
                newest = [value for value in sent if value is not None][-1]
                needed = math.ceil(self.desired * newest / target - 1e-9)
                gradual = self.desired - max(1, math.floor(self.desired * GRADUAL))
                if max(needed, gradual) < self.desired:
                    wants.append(max(needed, gradual))
        return wants

    def _set(self, name: str, wanted: int, now: float) -> None:
        policy, before = self.policy, self.desired
        self.desired = wanted
        while self.empty and self.empty[0][1] + policy.empty_seconds <= now:
            begun, emptied = self.empty.pop(0)
            self.day.instance_seconds += emptied + policy.empty_seconds - begun
        for _ in range(wanted - before):
            if self.empty:
                self.begun.append(self.empty.pop()[0])
                heapq.heappush(self.starts, now + policy.copy_start_seconds)
            else:
                self.begun.append(now)
                heapq.heappush(self.starts, now + policy.start_seconds)
        for _ in range(before - wanted):
            self.empty.append((self.begun.pop(), now))
            self.copies -= 1
        self.changing = (name, before)


def slept(requests: Sequence[int], policy: SimulatedSleep, *, copies: int, seed: int) -> SleptDay:
    """`requests`: in each minute, at random moments of it. `copies`: at the begin."""
    source = random.Random(seed)
    moments = [
        (minute + source.random()) * MINUTE
        for minute, count in enumerate(requests)
        for _ in range(count)
    ]
    return _Day(policy, len(requests), copies).run(moments)
