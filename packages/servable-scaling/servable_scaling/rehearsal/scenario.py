"""The input of a simulated day: traffic, instances, policies, alarms, and events.

The number of copies may be zero: then instances stay for a while, and callers wait for the first
copy. Times are minutes of the day, with fractions: a wait of five minutes is not rounded to six.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from servable_scaling.rehearsal.fleet import InstanceModel, Routing

MINUTE_SECONDS = 60.0
# An instance without a copy is paid so long: https://aws.amazon.com/blogs/machine-learning/
# unlock-cost-savings-with-the-new-scale-down-to-zero-feature-in-amazon-sagemaker-inference/ (2024-12-03); 12
# were seen: https://github.com/huggingface/skills/pull/215 (2026-07).
EMPTY_MINUTES = 10
# A waiting caller retries this often: WAKE_LOOK_SECONDS of servable_client (a test compares both).
ASKS_AGAIN_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Sleep:
    """A variant whose copies may scale to zero, each with an instance to itself."""

    start_seconds: float
    """From a decision to a copy's first response, on a new instance."""
    copy_start_seconds: float
    """The same on an instance that is still there."""
    wake_seconds: float
    """Callers wait so long for the first copy, and then fail."""
    empty_minutes: int = EMPTY_MINUTES


@dataclass(frozen=True)
class Wait:
    """Callers who came one after the other and got a response together. The last of them waited least."""

    callers: float
    longest_seconds: float
    shortest_seconds: float


class WaitingCallers:
    """The callers who found no copy, by when they came."""

    def __init__(self, sleep: Sleep) -> None:
        self._patience = sleep.wake_seconds / MINUTE_SECONDS
        self._waiting: list[tuple[float, float, float]] = []  # (first came, last came, callers)

    @property
    def count(self) -> float:
        return sum(callers for _, _, callers in self._waiting)

    def add(self, first: float, last: float, callers: float) -> None:
        """Add callers who come evenly between two times."""
        if callers:
            self._waiting.append((first, last, callers))

    def remove_expired(self, now: float) -> float:
        """Remove the callers who waited for as long as they do, and return their number."""
        failed, kept = 0.0, []
        for first, last, callers in self._waiting:
            until = min(last, max(first, now - self._patience))
            gone = callers * (until - first) / (last - first)
            failed += gone
            if until < last:
                kept.append((until, last, callers - gone))
        self._waiting = kept
        return failed

    def release_all(self, now: float) -> list[Wait]:
        """Remove all who still wait, and return their waits. Call it at the first copy's first response."""
        waits = [
            Wait(callers, (now - first) * MINUTE_SECONDS, (now - last) * MINUTE_SECONDS)
            for first, last, callers in self._waiting
        ]
        self._waiting = []
        return waits


class EmptyInstances:
    """The instances without a copy, which cost money until they end or get one."""

    def __init__(self, minutes: int) -> None:
        self._minutes = minutes
        self._ends: list[int] = []

    def add(self, count: int, minute: int) -> None:
        self._ends += [minute + self._minutes] * count

    def take(self, count: int, minute: int) -> int:
        """Remove at most `count` instances, the last emptied first, and return their number."""
        taken = min(count, self.count_paid(minute))
        del self._ends[len(self._ends) - taken :]
        return taken

    def count_paid(self, minute: int) -> int:
        """Return how many there are in this minute."""
        self._ends = [ends for ends in self._ends if ends > minute]
        return len(self._ends)


def compute_mean_wait_seconds(waits: Sequence[Wait]) -> float:
    """Return the callers' mean wait, with half of a retry's pause; 0 if nobody waited."""
    callers = sum(wait.callers for wait in waits)
    if not callers:
        return 0.0
    sums = (wait.callers * (wait.longest_seconds + wait.shortest_seconds) / 2 for wait in waits)
    return sum(sums) / callers + ASKS_AGAIN_SECONDS / 2


def compute_longest_wait_seconds(waits: Sequence[Wait]) -> float:
    """Return the longest wait; 0 without any. It includes the pause until a caller retries."""
    return max((wait.longest_seconds + ASKS_AGAIN_SECONDS for wait in waits), default=0.0)


@dataclass(frozen=True, kw_only=True)
class PlacedDeployment:
    """A deployment: a second fleet, as large as the first, starts at `minute` and takes `shares`.

    `shares`: percent of the traffic after each bake; the old fleet ends a bake after the last of
    them, 100. `batch_percent`: instead of a second fleet, batches start one after the other. Each
    takes its part of the traffic and bakes, and then as many old instances end.
    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-rolling.html (2026-11-22)
    """

    minute: int
    shares: tuple[float, ...] = (100.0,)
    bake_minutes: int = 0
    batch_percent: float | None = None
    by_count: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    """{instances: shares}: a share is of whole instances; `shares` counts where the number is not here."""
    last_bake_minutes: int | None = None
    """Minutes from the last share to the end of the old fleet; None: as long as the others."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """The complete input of a simulated day. Properties are CloudFormation's, with references resolved."""

    requests: Sequence[float]
    """Requests in each minute."""
    model: InstanceModel
    routing: Routing
    resource: str
    """endpoint/NAME/variant/NAME, or inference-component/NAME."""
    instances: int
    """Answering at the first minute."""
    start_minutes: int
    targets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    policies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    alarms: Sequence[Mapping[str, Any]] = ()
    page: str | None = None
    """The rule of the composite alarm that wakes the on-call engineer."""
    p99_ms: float | None = None
    """The objective; without one every request with a response meets it."""
    begins: datetime = datetime(2026, 11, 23)
    deployment: PlacedDeployment | None = None
    metric_delay_seconds: int = 0
    """Until an alarm sees a datapoint."""
    sleep: Sleep | None = None
    """Set if its copies may be none; its start then counts, and not start_minutes."""
    latencies: bool = True
    """False: percentiles are left out, and take no time."""

    def reduce_to_scaling(self) -> "Scenario":
        """Return the day without percentiles and notifying alarms, which runs four times as fast."""
        acting = [alarm for alarm in self.alarms if alarm.get("AlarmActions")]
        return replace(self, alarms=acting, page=None, latencies=False)
