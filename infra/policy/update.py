"""Replacement of a fleet by an update: shares in whole instances, instances at the same time, duration.

This is pure arithmetic from the SageMaker guide about guardrails,
https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails.html (2026-11-21); docs/decisions/0020
has the assumptions.
"""

import math
from dataclasses import dataclass
from typing import Literal

from infra.catalog.limits import least, most
from infra.policy.sizing import instances_during_update

Strategy = Literal["all_at_once", "canary", "linear", "rolling"]

SECONDS_PER_MINUTE = 60
LONGEST = "MaximumExecutionTimeoutInSeconds"
# The longest that SageMaker waits for one start: download and health check, 3600 s each at most.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html (2026-11-21)
LONGEST_START_SECONDS = 7200
# The estimates are cautious already, so a start that takes twice as long has failed. At least half an
# hour is allowed, because capacity may be short and giving up early would undo a good update.
START_SAFETY = 2
LEAST_START_SECONDS = 1800


@dataclass(frozen=True, kw_only=True)
class Update:
    """One update of a fleet of `instances` of one variant."""

    strategy: Strategy
    percent: int
    """Percentage of the first share, of each step or of each batch; 100 for all_at_once."""
    bake_minutes: int
    window_minutes: int
    """Window of the alarms in minutes."""
    instances: int
    rollback_percent: int = 100
    """Percentage of the old instances that a rollback starts at once; None unless rolling."""

    @property
    def steps(self) -> tuple[int, ...]:
        """Instances of the new fleet that take traffic, after each shift; the last is all of them.

        Capacity is whole instances: 10 % of two is one.
        """
        first = min(max(math.ceil(self.instances * self.percent / 100), 1), self.instances)
        if self.strategy == "canary":
            # With a single instance the canary is the whole fleet, and bakes all the same.
            return (first, self.instances)
        return (*range(first, self.instances, first), self.instances)

    @property
    def first_share_percent(self) -> float:
        """Percentage of all instances that really take the first traffic."""
        return 100 * self.steps[0] / self.instances

    @property
    def instances_at_once(self) -> int:
        """Instances of both fleets in a blue/green update; in a rolling one the fleet and a batch."""
        rolls = self.strategy == "rolling"
        batches = (self.percent, self.rollback_percent) if rolls else None
        return instances_during_update(self.instances, batches=batches)

    @property
    def earliest_alarm_minutes(self) -> int:
        """Minutes from a shift of traffic until an alarm over its window can first fire."""
        return self.window_minutes

    @property
    def last_bake_seconds(self) -> int:
        """Seconds that the old fleet stays after the last shift, in which its alarm can still fire.

        For all_at_once it is the only bake. After steps the new version has been watched already, so
        the shortest time in which an alarm can fire is enough, because both fleets cost money. A
        rolling update has no old fleet left; it waits after its last batch as after the others.
        """
        if self.strategy in ("all_at_once", "rolling"):
            return self.bake_minutes * SECONDS_PER_MINUTE
        shortest = min(self.bake_minutes, self.window_minutes + 1)
        return shortest * SECONDS_PER_MINUTE

    @property
    def bakes_seconds(self) -> int:
        """Seconds of all bakes."""
        before = (len(self.steps) - 1) * self.bake_minutes * SECONDS_PER_MINUTE
        return before + self.last_bake_seconds

    @property
    def starts(self) -> int:
        """Number of times that instances are started one after the other."""
        return len(self.steps) if self.strategy == "rolling" else 1

    def expected_seconds(self, start_seconds: float | None) -> float | None:
        """Duration of an update without failures; None if the time of a start is unknown."""
        return None if start_seconds is None else self.bakes_seconds + self.starts * start_seconds

    def longest_seconds(self, start_seconds: float | None) -> int:
        """Timeout after which SageMaker rolls back: every bake, and starts that take twice as long."""
        start = LONGEST_START_SECONDS if start_seconds is None else START_SAFETY * start_seconds
        seconds = self.bakes_seconds + self.starts * max(start, LEAST_START_SECONDS)
        whole_minutes = SECONDS_PER_MINUTE * math.ceil(seconds / SECONDS_PER_MINUTE)
        return min(max(whole_minutes, least(LONGEST)), most(LONGEST))
