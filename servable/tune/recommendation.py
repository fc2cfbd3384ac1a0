"""Recommend settings, scaling, alarms, and the bake time for an environment file."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from infra.parameters.environment import Environment
from infra.policy.sizing import count_instances
from servable.load.objective import Goal
from servable.load.page import LoadContent
from servable.measured.measurement import LoadError
from servable.measured.precision import Interval, Latencies, format_number
from servable.project.environment_edit import KeyChange
from servable.tune.search.recommended import ChosenPoint
from servable.tune.search.space import INSTANCE_TYPE, format_value

# CloudWatch has a minute's metrics within one or two minutes.
# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
METRIC_DELAY_MINUTES = 2
# The p99 of fewer requests is one or two of them.
ENOUGH_REQUESTS = 500
LONGEST_BAKE_MINUTES = 60
AWS_SAFETY_FACTOR = 0.5


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    relative: bool
    """Measured on this computer, so valid for ranking settings and not for the instance type."""
    choice: ChosenPoint
    rps: Interval
    """Per instance, at the knee of the recommended settings."""
    changes: tuple[KeyChange, ...]
    withheld: tuple[KeyChange, ...]
    """Changes that aren't written because the numbers are relative."""


def recommend(
    environment: Environment,
    variant: str,
    measured: LoadContent,
    *,
    choice: ChosenPoint,
    effects: Mapping[str, Interval],
    force_local_numbers: bool = False,
) -> Recommendation:
    """Recommend changes to the environment file.

    `measured`: the recommended settings, which are the choice's or today's. Raises LoadError.
    """
    knee, step, is_relative = measured.knee, measured.knee_step, measured.curve.asked.is_relative
    if knee is None or step is None:
        raise LoadError(
            "today's settings no longer meet the objective; try again on an idle computer"
        )
    relative = is_relative and not force_local_numbers
    numbers = tuple(_list_measured_changes(environment, variant, knee.rps, step.latencies))
    return Recommendation(
        relative=is_relative,
        choice=choice,
        rps=knee.rps,
        changes=(*_list_setting_changes(variant, choice, effects), *(() if relative else numbers)),
        withheld=numbers if relative else (),
    )


def describe_result(choice: ChosenPoint, goal: Goal) -> str:
    """Return the result of the search in one or two sentences."""
    shown, gain = choice.confirmation, choice.confirmation.gain
    unit = "requests/s" if goal == "throughput" else "requests per dollar"
    if gain is None:
        failed = "the best of the others failed or sustained less when they were measured again"
        why = failed if shown.refuted else "too few trials were left to compare others with them"
        return f"Today's settings stay: {why}."
    interval = f"{gain.value:+.1%} {unit}, 99 % interval {gain.low:+.1%} to {gain.high:+.1%}"
    if choice.is_better:
        return f"The chosen settings together are better than today's: {interval}."
    if shown.refuted:
        return (
            f"Today's settings stay: the pairs of trials favor others ({interval}), but their load "
            "curve was below today's."
        )
    found = (
        f"Today's settings stay: no difference above {max(gain.high, 0):.1%} was shown "
        f"(the best of the others: {interval})."
    )
    if shown.needed is not None:
        times = format_number(math.ceil(10 * shown.needed / shown.pairs) / 10)
        found += (
            f" {shown.pairs} pairs of trials don't show whether others are better: as these vary, "
            f"{shown.needed - shown.pairs:,} more are needed; stop other programs, or pass --new and {times} "
            "times the trials and minutes."
        )
    return found


def _list_setting_changes(
    variant: str, choice: ChosenPoint, effects: Mapping[str, Interval]
) -> Iterator[KeyChange]:
    """Yield the changes of settings; none if no better settings were shown."""
    moved = choice.point.get(INSTANCE_TYPE) != choice.start.get(INSTANCE_TYPE)
    for name, value in choice.point.items() if choice.is_better else ():
        today = choice.start.get(name)
        # On a different instance type, a different value would be derived for what the file leaves out.
        if value is None or (value == today and not moved):
            continue
        reason = "part of the choice; its separate effect is unknown"
        if back := effects.get(name):
            shown = f"{back.value - 1:+.0%} ({back.low - 1:+.0%} to {back.high - 1:+.0%})"
            unsure = "" if back.high < 1 else "; not shown by itself"
            reason = f"with {format_value(today)} as today, the others as chosen: {shown}{unsure}"
        table = () if name == INSTANCE_TYPE else ("container",)
        key = ("variants", variant, *table, *name.split("."))
        yield KeyChange(key=key, value=value, reason=reason)


def _list_measured_changes(
    environment: Environment, variant: str, rps: Interval, latencies: Latencies
) -> Iterator[KeyChange]:
    table, scaling = ("variants", variant), environment.variants[variant].scaling
    safety = scaling.safety_factor if scaling else AWS_SAFETY_FACTOR
    # The low end: a target too low costs money, one too high costs requests.
    most = float(f"{rps.low:.3g}")
    least = format_number(rps.low, (rps.high - rps.low) / 2)
    reason = f"measured {rps.short_text}, at least {least}"
    yield KeyChange(key=(*table, "scaling", "max_rps_per_instance"), value=most, reason=reason)
    reason = f"target {format_number(60 * most * safety)} invocations per minute and instance"
    yield KeyChange(key=(*table, "scaling", "safety_factor"), value=safety, reason=reason)
    yield from _list_instance_changes(environment, variant, most, safety)
    for percent in (50, 90, 99):
        milliseconds = latencies.compute_percentile_ms(percent)
        if math.isfinite(milliseconds):
            key = ("alarms", f"p{percent}_latency_ms")
            reason = f"p{percent} at the highest load planned for one instance"
            yield KeyChange(key=key, value=_round_up(milliseconds), reason=reason)
    if environment.rollout is not None:
        yield _compute_bake_change(environment)


def _list_instance_changes(
    environment: Environment, variant: str, most: float, safety: float
) -> Iterator[KeyChange]:
    """Yield the instance counts for the variant's share of the stated traffic."""
    traffic, table = environment.traffic, environment.variants[variant]
    share = table.weight / (sum(other.weight for other in environment.variants.values()) or 1.0)
    least = min(2, table.min_instances)  # the file decides on redundancy
    for name, rps in (("min_instances", traffic.quiet_rps), ("max_instances", traffic.peak_rps)):
        if rps is not None:
            count = count_instances(rps * share, max_rps_per_instance=most, safety_factor=safety)
            least = max(count, least)
            reason = f"{rps * share:g} requests/s at {most:g} x {safety:g}"
            yield KeyChange(key=("variants", variant, name), value=least, reason=reason)


def _compute_bake_change(environment: Environment) -> KeyChange:
    """Return the bake time: an alarm can fire, and a canary gets enough requests to judge."""
    window, rollout = environment.alarms.window_minutes, environment.rollout
    why = f"an alarm needs {window} minutes and {METRIC_DELAY_MINUTES} for its metrics"
    needs = {window + METRIC_DELAY_MINUTES + 1: why}
    if rollout is not None and rollout.strategy == "canary" and environment.traffic.quiet_rps:
        quiet, percent = environment.traffic.quiet_rps, rollout.canary_percent
        needed = math.ceil(ENOUGH_REQUESTS / (quiet * percent / 100 * 60))
        needs.setdefault(needed, f"{ENOUGH_REQUESTS} requests of {percent} % of {quiet:g} a second")
    minutes = min(max(needs), LONGEST_BAKE_MINUTES)
    return KeyChange(key=("rollout", "bake_minutes"), value=minutes, reason=needs[max(needs)])


def _round_up(milliseconds: float) -> float:
    """Round up to two digits: 87.3 becomes 88."""
    step: float = 10.0 ** (math.floor(math.log10(milliseconds)) - 1)
    return float(f"{math.ceil(milliseconds / step) * step:.6g}")
