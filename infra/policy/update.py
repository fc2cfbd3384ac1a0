"""How an update replaces a fleet: shares in whole instances, how many run at once, how long it takes.

Pure arithmetic over what the SageMaker guide says of guardrails,
https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails.html (2026-11-21); docs/decisions/0020
has what is assumed.
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
# The estimates are cautious already; a start that takes twice as long has gone wrong. Half an hour
# at least: capacity may be short for a while, and giving up early undoes an update that was good.
START_SAFETY = 2
LEAST_START_SECONDS = 1800


@dataclass(frozen=True, kw_only=True)
class Update:
    """One update of a fleet of `instances` of one variant."""

    strategy: Strategy
    percent: int
    """Of the first share, of each step or of each batch; 100 all at once."""
    bake_minutes: int
    window_minutes: int
    """Consecutive minutes that an alarm must see."""
    instances: int
    rollback_percent: int = 100
    """Share of the old instances that a rollback brings up at once, where the update rolls."""

    @property
    def steps(self) -> tuple[int, ...]:
        """Instances of the new fleet that take traffic, after each shift; the last is all of them.

        Capacity is whole instances: 10 % of two is one.
        """
        first = min(max(math.ceil(self.instances * self.percent / 100), 1), self.instances)
        if self.strategy == "canary":
            # Of a single instance the canary is all of it, and bakes all the same.
            return (first, self.instances)
        return (*range(first, self.instances, first), self.instances)

    @property
    def first_share_percent(self) -> float:
        """What really takes the first traffic, of all instances."""
        return 100 * self.steps[0] / self.instances

    @property
    def instances_at_once(self) -> int:
        """Both fleets of a blue/green update; when it rolls the fleet, a batch and a rollback's."""
        rolls = self.strategy == "rolling"
        batches = (self.percent, self.rollback_percent) if rolls else None
        return instances_during_update(self.instances, batches=batches)

    @property
    def earliest_alarm_minutes(self) -> int:
        """From a shift of traffic to the first moment at which an alarm over its window can fire."""
        return self.window_minutes

    @property
    def last_bake_seconds(self) -> int:
        """How long the old fleet stays after the last shift: its alarm can fire before it is gone.

        All at once it is the only bake. After steps the new version has been watched already, and
        the shortest that an alarm can fire in is enough: both fleets are paid for meanwhile. A
        rolling update has no old fleet left; it waits after its last batch as after the others.
        """
        if self.strategy in ("all_at_once", "rolling"):
            return self.bake_minutes * SECONDS_PER_MINUTE
        shortest = min(self.bake_minutes, self.window_minutes + 1)
        return shortest * SECONDS_PER_MINUTE

    @property
    def bakes_seconds(self) -> int:
        """All of them."""
        before = (len(self.steps) - 1) * self.bake_minutes * SECONDS_PER_MINUTE
        return before + self.last_bake_seconds

    @property
    def starts(self) -> int:
        """Times that instances are started, one after the other."""
        return len(self.steps) if self.strategy == "rolling" else 1

    def expected_seconds(self, start_seconds: float | None) -> float | None:
        """Of an update without trouble. None: nobody knows how long an instance takes to start."""
        return None if start_seconds is None else self.bakes_seconds + self.starts * start_seconds

    def longest_seconds(self, start_seconds: float | None) -> int:
        """After which SageMaker takes it back: every bake, and starts that take twice as long."""
        start = LONGEST_START_SECONDS if start_seconds is None else START_SAFETY * start_seconds
        wanted = self.bakes_seconds + self.starts * max(start, LEAST_START_SECONDS)
        whole_minutes = SECONDS_PER_MINUTE * math.ceil(wanted / SECONDS_PER_MINUTE)
        return min(max(whole_minutes, least(LONGEST)), most(LONGEST))
