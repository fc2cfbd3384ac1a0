"""Print a rehearsed day on one screen, and compared policies.

A day has a line per hour, followed by alarms, cost, and verdict.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import Any

import click

from servable.rehearse.comparison import PolicyComparison, PolicyResult, sort_by_cost
from servable.rehearse.rehearsal import MOST_BROKEN_MINUTES, SIMILAR_DAYS, PacedDay, Rehearsal
from servable_scaling.rehearsal.day import LATENCY_MARGIN, RehearsedMinute
from servable_scaling.rehearsal.scenario import (
    compute_longest_wait_seconds,
    compute_mean_wait_seconds,
)
from servable_scaling.rehearsal.traffic import DAY_SIGMA, SHIFT_MINUTES

ROWS = 24
# The largest of the similar days, by the middle of its stratum.
LARGEST = math.exp(NormalDist(0, DAY_SIGMA).inv_cdf(1 - 0.5 / SIMILAR_DAYS)) - 1
HEADS = ("from", "requests/s", "instances", "p50 ms", "p99 ms", "refused", "outside")


def format_clock(minute: int) -> str:
    """Format a minute as 00:00 to 23:59, and later days as 1d 00:00."""
    day, rest = divmod(minute, 24 * 60)
    return f"{'' if not day else f'{day}d '}{rest // 60:02}:{rest % 60:02}"


def show_day(result: Rehearsal) -> None:
    """Print the table of hours and the conclusions."""
    click.echo("".join(f"{head:>11}" for head in HEADS))
    for row in list_rows(result):
        click.echo("".join(f"{cell:>11}" for cell in row).rstrip())
    click.echo()
    click.echo("\n".join(list_conclusions(result)))


def list_rows(result: Rehearsal) -> Iterator[tuple[str, ...]]:
    """Yield a row for each part of the day.

    A row has the part's busiest and slowest minutes and the sum of rejected requests.
    """
    minutes, broken = result.day.minutes, set(result.day.broken)
    long = math.ceil(len(minutes) / ROWS)
    for begin in range(0, len(minutes), long):
        some = minutes[begin : begin + long]
        counts = [minute.answering for minute in some]
        least, most = min(counts), max(counts)
        outside = len(broken & set(range(begin, begin + long)))
        yield (
            format_clock(begin),
            f"{max(minute.requests for minute in some) / 60:,.0f}",
            str(least) if least == most else f"{least} to {most}",
            _format_slowest(some, "p50_ms"),
            _format_slowest(some, "p99_ms"),
            f"{sum(minute.refused for minute in some):,.0f}",
            f"{outside} min" if outside else "",
        )


def _format_slowest(some: Sequence[RehearsedMinute], name: str) -> str:
    latencies_ms = [getattr(minute, name) for minute in some if getattr(minute, name) is not None]
    return f"{max(latencies_ms):,.0f}" if latencies_ms else ""


def list_conclusions(result: Rehearsal) -> Iterator[str]:
    """Yield one sentence per conclusion about the day; the last is the verdict."""
    day, instance, scenario = result.day, result.measured, result.scenario
    yield (
        f"an instance: {instance.rate_rps:g} requests/s, p50 {instance.p50_ms:g} ms, "
        f"p99 {instance.p99_ms:g} ms ({instance.source}); it queues {scenario.model.queue:,.0f} requests"
    )
    yield "requests arrive at random times in each minute; bursts within a minute aren't simulated"
    for paced in result.paced:
        pace, sent = paced.pace, sum(minute.requests for minute in paced.day.minutes)
        yield (
            f"a start of {pace.start_minutes} min, metrics delayed by {pace.metric_delay_seconds} s: "
            f"{len(paced.day.broken):,} minutes outside, "
            f"{paced.day.refused_requests / sent if sent else 0:.2%} refused{_format_waits(paced)}"
        )
    yield from _list_sleep(result)
    if len(result.paced) > 1:
        yield "the table shows the last of these, the slowest"
    if result.deployment_minutes is not None:
        yield (
            f"the deployment, with {day.deployed_with} instances, takes about "
            f"{result.deployment_minutes} min with the estimated or stated start"
        )
    woken = ", ".join(format_clock(minute) for minute in day.woken)
    yield f"the on-call engineer is woken {f'at {woken}' if woken else 'never'}"
    cost = "unknown price" if result.usd is None else f"${result.usd:,.2f}"
    yield f"cost: {cost} for {day.instance_hours:,.1f} instance hours"
    yield state_verdict(result)


def join_minutes(minutes: Sequence[int]) -> list[tuple[int, int]]:
    """Return (first, last) of each run of consecutive minutes."""
    numbered = itertools.groupby(enumerate(minutes), lambda pair: pair[1] - pair[0])
    runs = [[minute for _, minute in run] for _, run in numbered]
    return [(run[0], run[-1]) for run in runs]


def find_asleep(result: Rehearsal) -> list[tuple[int, int]]:
    """Return the runs of minutes in which no copy responds.

    Returns [] for a variant that never scales to zero.
    """
    if result.scenario.sleep is None:
        return []
    minutes = enumerate(result.day.minutes)
    return join_minutes([number for number, minute in minutes if not minute.answering])


def _format_waits(paced: PacedDay) -> str:
    """Format how many callers find no copy, and how long they wait.

    Returns "" if the variant never scales to zero.
    """
    day, sleep = paced.day, paced.scenario.sleep
    if sleep is None:
        return ""
    mean = compute_mean_wait_seconds(day.waits) / 60
    longest = compute_longest_wait_seconds(day.waits) / 60
    answered = sum(wait.callers for wait in day.waits)
    return (
        f"; {day.waiting_callers:,.0f} callers find no copy: {answered:,.0f} wait {mean:.1f} min on the "
        f"average, at most {longest:.1f}, and {day.gave_up:,.0f} fail after {sleep.wake_seconds:g} s"
    )


def _list_sleep(result: Rehearsal) -> Iterator[str]:
    """Yield how long the variant is scaled to zero, and what that saves."""
    sleep, spans = result.scenario.sleep, find_asleep(result)
    if sleep is None or result.awake_hours is None:
        return
    hours = sum(last + 1 - first for first, last in spans) / 60
    times = "once" if len(spans) == 1 else f"{len(spans):,} times"
    yield (
        f"no copy runs for {hours:,.1f} h, {times} in the day; callers wait for endpoint.wake_seconds; "
        "fractions of requests are rounded at random to whole requests"
    )
    saved = result.awake_hours - result.day.instance_hours
    usd = result.usd_per_hour
    price = "" if usd is None else f", ${saved * usd:,.2f}"
    yield (
        f"scaling to zero saves {saved:,.1f} of {result.awake_hours:,.1f} "
        f"instance hours a day{price}; an instance "
        f"stays for {sleep.empty_minutes} min without a copy"
    )


def state_verdict(result: Rehearsal) -> str:
    """State the verdict in one sentence."""
    day, most = result.day, result.scenario.p99_ms
    objective = "no refused requests" if most is None else f"p99 at most {most:g} ms"
    similar = (
        f"{result.similar_broken_minutes:,.1f} minutes a day outside on {SIMILAR_DAYS} similar days, up to "
        f"{LARGEST:.0%} larger and {SHIFT_MINUTES} min earlier or later"
    )
    if result.verdict == "holds":
        for_whom = "" if result.scenario.sleep is None else ", for callers that find a copy"
        return f"holds: {objective} in all {len(day.minutes):,} minutes{for_whom}; {similar}"
    if result.verdict == "cannot be told":
        return f"cannot be told: {_explain_doubt(result, objective, similar)}"
    paced = min(result.paced, key=lambda each: len(each.day.broken))
    minutes = f"in {len(paced.day.broken):,} of {len(day.minutes):,} minutes"
    if len(paced.day.broken) < len(day.broken):
        minutes = minutes.replace(" of ", f" to {len(day.broken):,} of ")
    begins = f"breaks at {format_clock(paced.day.broken[0])}"
    if most is None:
        return f"{begins}: requests are refused {minutes}, {day.refused_requests:,.0f} in all"
    return f"{begins}: {objective} is missed {minutes}; {day.refused_requests:,.0f} requests are refused"


def _explain_doubt(result: Rehearsal, objective: str, similar: str) -> str:
    """Explain why the verdict isn't certain, and how to get a certain one."""
    broken = [len(paced.day.broken) for paced in result.paced]
    if any(broken):
        keys = " and ".join(result.unstated)
        return (
            f"{objective} is missed in {min(broken):,} to {max(broken):,} minutes, "
            "depending on how fast instances "
            f"start; set {keys} to your measurements"
        )
    if max(paced.day.expected_broken_minutes for paced in result.paced) > MOST_BROKEN_MINUTES:
        return (
            f"the day is within {LATENCY_MARGIN:.0%} of {objective} and 1 % refused, or its minutes have so "
            "few requests that a single one decides; measure the instance with `servable load`, or leave "
            "more capacity"
        )
    compared = "" if result.scenario.sleep else ", see --compare"
    return (
        f"the day itself meets the objective ({objective}), but {similar}; add capacity{compared}"
    )


def list_comparison_heads(comparison: PolicyComparison) -> tuple[str, ...]:
    """Return the headings of the table of compared policies."""
    cost = "$ a day" if comparison.has_price else "hours a day"
    return "policy", cost, "minutes outside", "refused", ""


def format_row(result: PolicyResult, comparison: PolicyComparison) -> tuple[str, ...]:
    """Return the cells of one policy."""
    return (
        result.trial.label,
        f"{result.average.cost:,.2f}",
        f"{result.average.broken_minutes:,.1f}",
        f"{result.average.refused_share:.2%}",
        "best" if result is comparison.best else "",
    )


def show_comparison(comparison: PolicyComparison, diff: str, *, write: bool) -> None:
    """Print the table, the conclusions, and the diff."""
    rows = [format_row(result, comparison) for result in sort_by_cost(comparison.compared)]
    table = [list_comparison_heads(comparison), *rows]
    wide = max(len(cells[0]) for cells in table)
    for name, *cells, mark in table:
        click.echo(f"{name:<{wide}}{''.join(f'{cell:>17}' for cell in cells)}  {mark}".rstrip())
    click.echo()
    click.echo("\n".join(list_comparison_conclusions(comparison)))
    if diff:
        click.echo(f"\n{diff}")
        click.echo("written" if write else "not written; --write applies it")


def list_comparison_conclusions(comparison: PolicyComparison) -> Iterator[str]:
    """Yield what was compared, what was left out, and the verdict, each in a sentence."""
    days = len(comparison.compared[0].days)
    yield f"{_format_policy_count(len(comparison.compared))} on the same {days} random days"
    if comparison.left_out:
        label, why = next(iter(comparison.left_out.items()))
        problem, *_ = why.split("; allowed: ")  # JSON has the whole sentence
        count = _format_policy_count(len(comparison.left_out))
        yield f"left out, because `servable check` rejects them: {count}, such as {label}: {problem}"
    yield state_comparison_verdict(comparison)


def _format_policy_count(count: int) -> str:
    return f"{count} policy" if count == 1 else f"{count} policies"


def state_comparison_verdict(comparison: PolicyComparison) -> str:
    """Describe whether the best policy is better than the file's, with the intervals."""
    days = len(comparison.compared[0].days)
    if comparison.best is None:
        nearest = min(
            comparison.compared, key=lambda each: (each.average.broken_minutes, each.average.cost)
        )
        return (
            f"no policy meets the objective on all {days} days and on {days} others; the nearest is "
            f"{nearest.trial.label}, with {nearest.average.broken_minutes:,.1f} minutes a day outside; "
            "try larger minimums, a schedule, or a larger max_instances"
        )
    label, advantage = comparison.best.trial.label, comparison.advantage
    if advantage is None:
        return (
            "the file's policy is the best, so keep it: it meets the objective on these days and on "
            f"{days} others"
        )
    unit, form = ("$", ",.2f") if comparison.has_price else ("hours", ",.1f")
    cost, low, high = (f"{number:+{form}}" for number in advantage.cost)
    minutes, fewest, most = (f"{number:+,.1f}" for number in advantage.broken)
    gain = (
        f"{cost} {unit} a day (95 %: {low} to {high}) and {minutes} minutes outside of the objective "
        f"({fewest} to {most}), on {days} other random days"
    )
    if advantage.holds:
        return f"better than the file's policy: {label}: {gain}"
    return f"no policy was shown to be better than the file's; the best was {label}: {gain}"


def build_comparison_json(
    comparison: PolicyComparison, diff: str, *, write: bool
) -> dict[str, Any]:
    """Convert the comparison to JSON-compatible data."""
    advantage = comparison.advantage
    interval = ("value", "low", "high")
    return {
        "verdict": comparison.verdict,
        "days": len(comparison.compared[0].days),
        "best": comparison.best and comparison.best.trial.label,
        "unit": "usd" if comparison.has_price else "instance hours",
        "policies": [
            {
                "policy": result.trial.label,
                "keys": dict(result.trial.keys),
                "cost_a_day": result.average.cost,
                "minutes_outside_a_day": result.average.broken_minutes,
                "refused_share": result.average.refused_share,
                "best": result is comparison.best,
                "by_day": [day._asdict() for day in result.days],
            }
            for result in comparison.compared
        ],
        "left_out": dict(comparison.left_out),
        "advantage": advantage
        and {
            "holds": advantage.holds,
            "cost_a_day": dict(zip(interval, advantage.cost, strict=True)),
            "minutes_outside_a_day": dict(zip(interval, advantage.broken, strict=True)),
        },
        "diff": diff,
        "written": write and bool(diff),
    }
