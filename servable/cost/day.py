"""Rehearse the day that [traffic] states, to get the instance hours of a variant."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.parameters.environment import Environment
from infra.parameters.placement import Placement, find_placement
from infra.policy.sizing import HOURS_PER_MONTH

if TYPE_CHECKING:  # rehearsing takes time to import
    from servable_scaling.rehearsal.day import RehearsedDay

HOURS_PER_DAY = 24
_MINUTES_PER_HOUR = 60


@dataclass(frozen=True, kw_only=True)
class SleepCost:
    """The cost of a variant that scales to zero, on the stated day, with and without sleep.

    It assumes the slowest start of instances.
    """

    instance_hours: float
    """Hours of a day, with instances that start and that stay without a copy."""
    instance_hours_without_sleep: float
    waiting_callers: float
    """Callers a day who find no copy."""
    failed_callers: float
    """Those of them who wait for endpoint.wake_seconds and fail."""
    longest_wait_seconds: float
    start_seconds: float
    metric_delay_seconds: int
    usd_per_instance_hour: float | None

    def compute_usd_per_month(self, hours: float) -> float | None:
        """Return US dollars per month of days with `hours` instance hours; None: no known price."""
        each = self.usd_per_instance_hour
        return each and hours / HOURS_PER_DAY * HOURS_PER_MONTH * each


def rehearse_day(
    environment: Environment, placed: Placement, requests: Sequence[float]
) -> "RehearsedDay":
    """Rehearse a day of one variant, with the slowest start of its instances.

    Hours and waits don't depend on latencies; the number of copies depends on the rate.
    """
    from infra.parameters import rehearsal_scenario as rehearsal
    from servable_scaling.rehearsal.day import rehearse

    *_, slowest = rehearsal.list_scaling_delays(placed)
    scaling = placed.variant.scaling
    rate = (scaling and scaling.max_rps_per_instance) or max(1.0, *requests) / _MINUTES_PER_HOUR
    instance = rehearsal.MeasuredInstance(rate_rps=rate, p50_ms=1, p99_ms=1, source="the file")
    planned = rehearsal.build_scenario(environment, placed, requests, instance, pace=slowest)
    return rehearse(planned.reduce_to_scaling())


def compute_sleep_cost(environment: Environment, name: str) -> SleepCost | None:
    """Compare the stated day with and without scaling to zero.

    Returns None if the variant never scales to zero or no day is stated. Raises TrafficError if
    the day can't be read.
    """
    placed = find_placement(environment, name)
    if placed is None or not placed.variant.sleep_after_minutes:
        return None
    from infra.parameters import rehearsal_scenario as rehearsal
    from servable_scaling.rehearsal.scenario import compute_longest_wait_seconds

    if (requests := rehearsal.read_stated_day(environment.traffic)) is None:
        return None
    *_, slowest = rehearsal.list_scaling_delays(placed)
    awake = rehearsal.disable_sleep(environment, placed)
    asleep = rehearse_day(environment, placed, requests)
    always = rehearse_day(awake, find_placement(awake, name) or placed, requests)
    price = environment.prices.find_instance_price(placed.instance.name, environment.region)
    return SleepCost(
        instance_hours=asleep.instance_hours,
        instance_hours_without_sleep=always.instance_hours,
        waiting_callers=asleep.waiting_callers,
        failed_callers=asleep.gave_up,
        longest_wait_seconds=compute_longest_wait_seconds(asleep.waits),
        start_seconds=slowest.start_seconds,
        metric_delay_seconds=slowest.metric_delay_seconds,
        usd_per_instance_hour=price.usd_per_hour if price else None,
    )
