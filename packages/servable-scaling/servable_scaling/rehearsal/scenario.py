"""All of a day but its result: traffic, instances, policies, alarms, and what happens in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from servable_scaling.rehearsal.fleet import InstanceModel, Routing
from servable_scaling.rehearsal.sleeping import Sleep


@dataclass(frozen=True, kw_only=True)
class PlacedDeployment:
    """A second fleet, as large as the first, starts at `minute` and takes `shares` of the traffic.

    `shares`: percent after each bake; the old fleet ends a bake after the last of them, 100.
    `batch_percent`: instead of a second fleet batches start one after the other, each takes its part of
    the traffic, bakes, and as many old instances end.
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
    """All of a day but its result. Properties are CloudFormation's, references resolved."""

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
    """The objective; without one every answered request meets it."""
    begins: datetime = datetime(2026, 11, 23)
    deployment: PlacedDeployment | None = None
    metric_delay_seconds: int = 0
    """Until an alarm sees a datapoint."""
    sleep: Sleep | None = None
    """Set if its copies may be none; its start then counts, and not start_minutes."""
    latencies: bool = True
    """False: percentiles are left out, and take no time."""

    def unwatched(self) -> "Scenario":
        """The same day without percentiles and alarms that only wake somebody: four times as fast."""
        acting = [alarm for alarm in self.alarms if alarm.get("AlarmActions")]
        return replace(self, alarms=acting, page=None, latencies=False)
