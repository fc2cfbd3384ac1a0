"""A comparison of policies on one screen, as JSON, and as a part of the page."""

import time
from collections.abc import Iterator
from typing import Any

import click

from servable.rehearse.candidates import PolicyProposal
from servable.rehearse.comparison import PolicyComparison, PolicyResult, Progress

SILENT_SECONDS = 3.0


def progress() -> Progress:
    """Return a callback that prints progress on stderr every few seconds."""
    shown_at = time.monotonic()

    def show(done: int, whole: int, seconds_left: float) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at > SILENT_SECONDS:
            shown_at = time.monotonic()
            click.echo(f"{done:,} of {whole:,} days; about {seconds_left:.0f} s left", err=True)

    return show


def heads(comparison: PolicyComparison, *, priced: bool) -> tuple[str, ...]:
    waits = ("callers waiting",) if comparison.sleeps else ()
    cost = "$ a day" if priced else "hours a day"
    return "policy", cost, "minutes outside", "refused", *waits, ""


def row(policy: PolicyResult, comparison: PolicyComparison) -> tuple[str, ...]:
    marks = {"best": policy is comparison.best, "not beaten": policy.unbeaten}
    return (
        policy.trial.alternative.label,
        f"{policy.cost:,.2f}",
        f"{policy.broken:,.1f}",
        f"{policy.refused:.2%}",
        *([f"{policy.waiting:,.1f}"] if comparison.sleeps else []),
        ", ".join(mark for mark, applies in marks.items() if applies),
    )


def by_cost(comparison: PolicyComparison) -> list[PolicyResult]:
    return sorted(comparison.compared, key=lambda policy: (policy.cost, policy.broken))


def nearest(comparison: PolicyComparison) -> PolicyResult:
    """The policy with the fewest minutes outside of the objective."""
    return min(comparison.compared, key=lambda policy: (policy.broken, policy.cost))


def show(
    comparison: PolicyComparison, proposed: PolicyProposal, *, priced: bool, write: bool
) -> None:
    always = (comparison.compared[0], comparison.best, nearest(comparison))
    kept = [policy for policy in by_cost(comparison) if policy.unbeaten or policy in always]
    table = [heads(comparison, priced=priced), *(row(policy, comparison) for policy in kept)]
    wide = max(len(cells[0]) for cells in table)
    for name, *cells, marks in table:
        click.echo(f"{name:<{wide}}{''.join(f'{cell:>17}' for cell in cells)}  {marks}".rstrip())
    click.echo()
    for line in lines(comparison, priced=priced):
        click.echo(line)
    if proposed.diff:
        click.echo(f"\n{proposed.diff}")
        click.echo("written" if write else "not written; --write applies it")


def lines(comparison: PolicyComparison, *, priced: bool) -> Iterator[str]:
    """Conclusions of the comparison, each in a sentence."""
    count = len(comparison.compared)
    beaten = sum(not policy.unbeaten for policy in comparison.compared)
    are = "is" if beaten == 1 else "are"
    yield (
        f"{count} policies on the same {comparison.days} random days; {beaten} {are} beaten: another is "
        "cheaper, has fewer minutes outside or refuses less, and is as good in the others"
    )
    if comparison.left_out:
        label, why = next(iter(comparison.left_out.items()))
        left_out = len(comparison.left_out)
        policies = "policy" if left_out == 1 else "policies"
        yield f"left out: {left_out} {policies}, such as {label}: {why}"
    if comparison.sleeps:
        yield (
            "callers waiting: a day, who find no copy; they wait for at most endpoint.wake_seconds, and then "
            "are refused"
        )
    yield verdict(comparison, priced=priced)


def verdict(comparison: PolicyComparison, *, priced: bool) -> str:
    """Whether the best is better than the file's policy, with the intervals."""
    if comparison.best is None:
        policy = nearest(comparison)
        return (
            f"none of them holds the objective on all of {comparison.days} days and as many others; the "
            f"nearest is {policy.trial.alternative.label}, with {policy.broken:,.1f} minutes a day outside; "
            "try larger minimums, another schedule or a larger max_instances"
        )
    label, advantage = comparison.best.trial.alternative.label, comparison.advantage
    if advantage is None:
        return (
            "the file's policy is the best of them; it stays: it holds the objective on these days and on "
            f"{comparison.days} others"
        )
    unit, form = ("$", ",.2f") if priced else ("hours", ",.1f")
    cost, low, high = (f"{number:+{form}}" for number in advantage.cost)
    minutes, fewest, most = (f"{number:+,.1f}" for number in advantage.broken)
    gain = (
        f"{cost} {unit} a day (95 %: {low} to {high}) and {minutes} minutes outside of the objective "
        f"({fewest} to {most}), on {comparison.days} other random days"
    )
    if advantage.holds:
        return f"better than the file's policy: {label}: {gain}"
    return f"nothing is shown to be better than the file's policy; the best was {label}: {gain}"


def as_json(
    comparison: PolicyComparison, proposed: PolicyProposal, *, priced: bool, write: bool
) -> dict[str, Any]:
    advantage = comparison.advantage
    interval = ("value", "low", "high")
    return {
        "verdict": "does not hold" if comparison.best is None else "holds",
        "days": comparison.days,
        "best": comparison.best and comparison.best.trial.alternative.label,
        "unit": "usd" if priced else "instance hours",
        "policies": [
            {
                "policy": policy.trial.alternative.label,
                "keys": dict(policy.trial.alternative.sets),
                "cost_a_day": policy.cost,
                "minutes_outside_a_day": policy.broken,
                "refused_share": policy.refused,
                "waiting_callers_a_day": policy.waiting,
                "unbeaten": policy.unbeaten,
                "best": policy is comparison.best,
                "by_day": [vars(day) for day in policy.days],
            }
            for policy in comparison.compared
        ],
        "left_out": comparison.left_out,
        "advantage": advantage
        and {
            "holds": advantage.holds,
            "cost_a_day": dict(zip(interval, advantage.cost, strict=True)),
            "minutes_outside_a_day": dict(zip(interval, advantage.broken, strict=True)),
        },
        "diff": proposed.diff,
        "written": write and bool(proposed.diff),
    }
