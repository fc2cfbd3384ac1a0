"""The rehearsed day on one screen: a line for each hour, then alarms, cost and verdict."""

import math
from collections.abc import Iterator, Sequence

import click

from servable.rehearse.rehearsal import Rehearsal
from servable_scaling.rehearsal.day import RehearsedMinute

ROWS = 24
HEADS = ("from", "requests/s", "instances", "p50 ms", "p99 ms", "refused", "outside")


def clock(minute: int) -> str:
    """00:00 to 23:59, and on into further days."""
    day, rest = divmod(minute, 24 * 60)
    return f"{'' if not day else f'{day}d '}{rest // 60:02}:{rest % 60:02}"


def show(result: Rehearsal) -> None:
    click.echo("".join(f"{head:>11}" for head in HEADS))
    for row in rows(result):
        click.echo("".join(f"{cell:>11}" for cell in row).rstrip())
    click.echo()
    for line in lines(result):
        click.echo(line)


def rows(result: Rehearsal) -> Iterator[tuple[str, ...]]:
    """Yield a row for each stretch of the day: the busiest, the slowest, the sum of refused."""
    minutes, broken = result.day.minutes, set(result.day.broken)
    long = math.ceil(len(minutes) / ROWS)
    for begin in range(0, len(minutes), long):
        some = minutes[begin : begin + long]
        counts = [minute.answering for minute in some]
        least, most = min(counts), max(counts)
        outside = len(broken & set(range(begin, begin + long)))
        yield (
            clock(begin),
            f"{max(minute.requests for minute in some) / 60:,.0f}",
            str(least) if least == most else f"{least} to {most}",
            _slowest(some, "p50_ms"),
            _slowest(some, "p99_ms"),
            f"{sum(minute.refused for minute in some):,.0f}",
            f"{outside} min" if outside else "",
        )


def _slowest(some: Sequence[RehearsedMinute], name: str) -> str:
    latencies_ms = [getattr(minute, name) for minute in some if getattr(minute, name) is not None]
    return f"{max(latencies_ms):,.0f}" if latencies_ms else ""


def lines(result: Rehearsal) -> Iterator[str]:
    """Conclusions about the day, each in a sentence."""
    day, instance, scenario = result.day, result.measured, result.scenario
    yield (
        f"an instance: {instance.rate_rps:g} requests/s, p50 {instance.p50_ms:g} ms, "
        f"p99 {instance.p99_ms:g} ms ({instance.source}); it starts in {scenario.start_minutes} min and "
        f"lets {scenario.model.queue:,.0f} requests wait"
    )
    woken = ", ".join(clock(minute) for minute in day.woken)
    yield f"the on-call engineer is woken {f'at {woken}' if woken else 'never'}"
    cost = "unknown price" if result.usd is None else f"${result.usd:,.2f}"
    yield f"cost: {cost} for {day.instance_hours:,.1f} instance hours"
    changed = scenario.choices.changed()
    if changed:
        yield f"scaling choices that differ: {changed}"
    yield verdict(result)


def verdict(result: Rehearsal) -> str:
    """The answer, in one sentence."""
    day, most = result.day, result.scenario.p99_ms
    objective = "no refused requests" if most is None else f"p99 at most {most:g} ms"
    if result.held:
        return f"holds: {objective} in all {len(day.minutes):,} minutes"
    minutes = f"in {len(day.broken):,} of {len(day.minutes):,} minutes"
    begins = f"breaks at {clock(day.broken[0])}"
    if most is None:
        return f"{begins}: requests are refused {minutes}, {day.refused:,.0f} in all"
    return f"{begins}: {objective} is missed {minutes}; {day.refused:,.0f} requests are refused"
