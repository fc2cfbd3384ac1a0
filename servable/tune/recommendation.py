"""Recommend changes to an environment file from a measurement.

The changes concern settings, scaling, alarms, and the bake time.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.parameters.environment import Environment
from infra.policy.derived_settings import compute_target_invocations
from infra.policy.sizing import count_instances
from servable.load.measurement import MeasuredTarget
from servable.load.objective import Goal, Knee
from servable.measured.precision import Interval, Latencies, format_number
from servable.project.environment_edit import KeyChange
from servable.tune.search.recommended import ChosenPoint, Effect
from servable.tune.search.space import INSTANCE_TYPE, format_value

# CloudWatch has a minute's metrics within the next one or two.
# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
METRIC_DELAY_MINUTES = 2
# A p99 of fewer requests than this is one or two of them.
ENOUGH_REQUESTS = 500
LONGEST_BAKE_MINUTES = 60
AWS_SAFETY_FACTOR = 0.5


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    relative: bool
    """Measured on this computer: it ranks settings and sets nothing that depends on the instance type."""
    choice: ChosenPoint
    rps: Interval
    """Per instance, at the knee of the chosen settings."""
    scaling_target_per_minute: float
    changes: tuple[KeyChange, ...]
    withheld: tuple[KeyChange, ...]
    """Changes that follow from the numbers, and are not written because the numbers are relative."""


def recommend(
    environment: Environment,
    variant: str,
    *,
    asked: MeasuredTarget,
    choice: ChosenPoint,
    effects: Mapping[str, Sequence[Effect]],
    knee: Knee,
    latencies: Latencies,
    force_local_numbers: bool = False,
) -> Recommendation:
    """Recommend changes to the environment file.

    `knee` and `latencies`: of the recommended settings, which are the choice's or today's.
    """
    relative = asked.is_relative and not force_local_numbers
    numbers = _list_measured_changes(environment, variant, knee.rps, latencies)
    return Recommendation(
        relative=asked.is_relative,
        choice=choice,
        rps=knee.rps,
        scaling_target_per_minute=compute_target_invocations(
            max_rps_per_instance=knee.rps.value,
            safety_factor=_find_safety_factor(environment, variant),
        ),
        changes=(*_list_setting_changes(variant, choice, effects), *(() if relative else numbers)),
        withheld=numbers if relative else (),
    )


def describe_result(choice: ChosenPoint, goal: Goal) -> str:
    """Return the result of the search in one or two sentences.

    The terminal output and the page show the same text.
    """
    shown, gain = choice.confirmation, choice.confirmation.gain
    unit = "requests/s" if goal == "throughput" else "requests per dollar"
    if gain is None:
        failed = "no other settings ran, or carried as much, when they were measured again"
        why = failed if shown.refuted else "too few trials were left to compare others with them"
        return f"Today's settings stay: {why}."
    interval = f"{gain.value:+.1%} {unit}, 95 % interval {gain.low:+.1%} to {gain.high:+.1%}"
    if choice.is_better:
        return f"The chosen settings together are better than today's: {interval}."
    if shown.refuted:
        return (
            f"Today's settings stay: the pairs of trials favour others ({interval}), but their load "
            "curve was below today's."
        )
    found = (
        f"Today's settings stay: no difference above {max(gain.high, 0):.1%} was shown "
        f"(the best of the others: {interval})."
    )
    if shown.needed is not None:
        times = format_number(math.ceil(10 * shown.needed / shown.pairs) / 10)
        found += (
            f" Whether others are better cannot be told from {shown.pairs} pairs of trials: as these vary, "
            f"{shown.needed - shown.pairs:,} more would tell; end other programs, or give --new and {times} "
            "times the trials and minutes."
        )
    return found


def _describe_single_effect(
    name: str, choice: ChosenPoint, effects: Mapping[str, Sequence[Effect]]
) -> str:
    """Describe the effect of one setting by itself.

    It is that of the choice with today's value of the setting.
    """
    for effect in effects.get(name, ()):
        if effect.value == choice.start.get(name):
            back = effect.relative
            interval = f"{back.value - 1:+.0%} ({back.low - 1:+.0%} to {back.high - 1:+.0%})"
            unsure = "" if back.high < 1 else "; not shown by itself"
            return f"with {format_value(effect.value)} as today, the others as chosen: {interval}{unsure}"
    return "part of the choice; not known by itself"


def _list_setting_changes(
    variant: str, choice: ChosenPoint, effects: Mapping[str, Sequence[Effect]]
) -> tuple[KeyChange, ...]:
    """Return the changes of settings; none if no better settings were shown."""
    if not choice.is_better:
        return ()
    moved = choice.point.get(INSTANCE_TYPE) != choice.start.get(INSTANCE_TYPE)
    table = ("variants", variant)
    return tuple(
        KeyChange(
            key=(*table, name)
            if name == INSTANCE_TYPE
            else (*table, "container", *name.split(".")),
            value=value,
            reason=_describe_single_effect(name, choice, effects),
        )
        for name, value in choice.point.items()
        # On another instance type another value would be derived for what the file leaves out.
        if value is not None and (moved or value != choice.start.get(name))
    )


def _list_measured_changes(
    environment: Environment, variant: str, rps: Interval, latencies: Latencies
) -> tuple[KeyChange, ...]:
    table, safety = ("variants", variant), _find_safety_factor(environment, variant)
    # The low end: a target too low costs money, one too high costs requests.
    most = float(f"{rps.low:.3g}")
    changes = [
        KeyChange(
            key=(*table, "scaling", "max_rps_per_instance"),
            value=most,
            reason=f"measured {rps.short_text}, at least {format_number(rps.low, (rps.high - rps.low) / 2)}",
        ),
        KeyChange(
            key=(*table, "scaling", "safety_factor"),
            value=safety,
            reason=f"target {format_number(60 * most * safety)} invocations a minute and instance",
        ),
    ]
    changes += _list_instance_changes(environment, variant, most, safety)
    for name, percent in (("p50", 50.0), ("p90", 90.0), ("p99", 99.0)):
        milliseconds = latencies.compute_percentile_ms(percent)
        if math.isfinite(milliseconds):
            changes.append(
                KeyChange(
                    key=("alarms", f"{name}_latency_ms"),
                    value=_round_up(milliseconds),
                    reason=f"{name} at the most that one instance shall carry",
                )
            )
    if environment.rollout is not None:
        changes.append(_compute_bake_change(environment))
    return tuple(changes)


def _list_instance_changes(
    environment: Environment, variant: str, most: float, safety: float
) -> list[KeyChange]:
    """Return the changes of instance counts for the stated traffic.

    The variant gets a share of the traffic according to its weight.
    """
    traffic, table = environment.traffic, environment.variants[variant]
    share = table.weight / (sum(other.weight for other in environment.variants.values()) or 1.0)
    changes = []
    least = 1
    for name, rps in (("min_instances", traffic.quiet_rps), ("max_instances", traffic.peak_rps)):
        if rps is None:
            continue
        count = count_instances(rps * share, max_rps_per_instance=most, safety_factor=safety)
        if name == "min_instances":
            # Redundancy is the file's decision, not a measurement's.
            count = least = max(count, min(2, table.min_instances))
        count = max(count, least)
        reason = f"{rps * share:g} requests/s at {most:g} x {safety:g}"
        changes.append(KeyChange(key=("variants", variant, name), value=count, reason=reason))
    return changes


def _compute_bake_change(environment: Environment) -> KeyChange:
    """Return the change of the bake time.

    It is longer than an alarm needs to fire. With a canary, it also covers the time in which the
    canary's share gets enough requests to judge. The maximum is LONGEST_BAKE_MINUTES.
    """
    window = environment.alarms.window_minutes
    least = window + METRIC_DELAY_MINUTES + 1
    reason = f"an alarm needs {window} minutes and {METRIC_DELAY_MINUTES} for its metrics"
    rollout, quiet = environment.rollout, environment.traffic.quiet_rps
    if rollout is not None and rollout.strategy == "canary" and quiet:
        needed = math.ceil(ENOUGH_REQUESTS / (quiet * rollout.canary_percent / 100 * 60))
        if needed > least:
            least = needed
            reason = (
                f"{ENOUGH_REQUESTS} requests of {rollout.canary_percent} % of {quiet:g} a second"
            )
    return KeyChange(
        key=("rollout", "bake_minutes"), value=min(least, LONGEST_BAKE_MINUTES), reason=reason
    )


def _find_safety_factor(environment: Environment, variant: str) -> float:
    scaling = environment.variants[variant].scaling
    return scaling.safety_factor if scaling else AWS_SAFETY_FACTOR


def _round_up(milliseconds: float) -> float:
    """Round up to two digits: 87.3 becomes 88."""
    step: float = 10.0 ** (math.floor(math.log10(milliseconds)) - 1)
    return float(f"{math.ceil(milliseconds / step) * step:.6g}")
