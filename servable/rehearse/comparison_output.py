"""A comparison of policies on the terminal and as JSON."""

import time
from collections.abc import Iterator
from typing import Any

import click

from servable.rehearse.comparison import PolicyComparison, PolicyProposal, PolicyResult, Progress
from servable.verdict import Verdict

SILENT_SECONDS = 3.0


def make_progress() -> Progress:
    """Return a callback that prints progress on stderr every few seconds."""
    shown_at = time.monotonic()

    def show(done: int, whole: int, seconds_left: float) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at > SILENT_SECONDS:
            shown_at = time.monotonic()
            click.echo(f"{done:,} of {whole:,} days; about {seconds_left:.0f} s left", err=True)

    return show


def list_heads(comparison: PolicyComparison) -> tuple[str, ...]:
    """Return the heads of the columns."""
    cost = "$ a day" if comparison.priced else "hours a day"
    return "policy", cost, "minutes outside", "refused", ""


def format_row(result: PolicyResult, comparison: PolicyComparison) -> tuple[str, ...]:
    """Return the cells of one policy."""
    return (
        result.trial.policy.label,
        f"{result.cost:,.2f}",
        f"{result.broken:,.1f}",
        f"{result.refused:.2%}",
        "best" if result is comparison.best else "",
    )


def sort_by_cost(comparison: PolicyComparison) -> list[PolicyResult]:
    """Return the policies, the cheapest first."""
    return sorted(comparison.compared, key=lambda result: (result.cost, result.broken))


def show_comparison(comparison: PolicyComparison, proposal: PolicyProposal, *, write: bool) -> None:
    """Print the table, the conclusions, and the diff."""
    rows = [format_row(result, comparison) for result in sort_by_cost(comparison)]
    table = [list_heads(comparison), *rows]
    wide = max(len(cells[0]) for cells in table)
    for name, *cells, mark in table:
        click.echo(f"{name:<{wide}}{''.join(f'{cell:>17}' for cell in cells)}  {mark}".rstrip())
    click.echo()
    for line in list_conclusions(comparison):
        click.echo(line)
    if proposal.diff:
        click.echo(f"\n{proposal.diff}")
        click.echo("written" if write else "not written; --write applies it")


def list_conclusions(comparison: PolicyComparison) -> Iterator[str]:
    """Yield what was compared, what was left out, and the verdict, each in a sentence."""
    days = len(comparison.compared[0].days)
    yield f"{_count_policies(len(comparison.compared))} on the same {days} random days"
    if comparison.left_out:
        label, why = next(iter(comparison.left_out.items()))
        problem, *_ = why.split("; allowed: ")  # JSON has the whole sentence
        count = _count_policies(len(comparison.left_out))
        yield f"left out, because `servable check` rejects them: {count}, such as {label}: {problem}"
    yield state_verdict(comparison)


def _count_policies(count: int) -> str:
    return f"{count} policy" if count == 1 else f"{count} policies"


def state_verdict(comparison: PolicyComparison) -> str:
    """Say whether the best policy is better than the file's, with the intervals."""
    days = len(comparison.compared[0].days)
    if comparison.best is None:
        nearest = min(comparison.compared, key=lambda result: (result.broken, result.cost))
        return (
            f"none of them holds the objective on all of {days} days and as many others; the nearest is "
            f"{nearest.trial.policy.label}, with {nearest.broken:,.1f} minutes a day outside; try larger "
            "minimums, a schedule, or a larger max_instances"
        )
    label, advantage = comparison.best.trial.policy.label, comparison.advantage
    if advantage is None:
        return (
            "the file's policy is the best of them; it stays: it holds the objective on these days and on "
            f"{days} others"
        )
    unit, form = ("$", ",.2f") if comparison.priced else ("hours", ",.1f")
    cost, low, high = (f"{number:+{form}}" for number in advantage.cost)
    minutes, fewest, most = (f"{number:+,.1f}" for number in advantage.broken)
    gain = (
        f"{cost} {unit} a day (95 %: {low} to {high}) and {minutes} minutes outside of the objective "
        f"({fewest} to {most}), on {days} other random days"
    )
    if advantage.holds:
        return f"better than the file's policy: {label}: {gain}"
    return f"nothing is shown to be better than the file's policy; the best was {label}: {gain}"


def find_verdict(comparison: PolicyComparison) -> Verdict:
    """Return whether a policy meets the objective on every day."""
    return "does not hold" if comparison.best is None else "holds"


def build_json(
    comparison: PolicyComparison, proposal: PolicyProposal, *, write: bool
) -> dict[str, Any]:
    """Convert the comparison to JSON-compatible data."""
    advantage = comparison.advantage
    interval = ("value", "low", "high")
    return {
        "verdict": find_verdict(comparison),
        "days": len(comparison.compared[0].days),
        "best": comparison.best and comparison.best.trial.policy.label,
        "unit": "usd" if comparison.priced else "instance hours",
        "policies": [
            {
                "policy": result.trial.policy.label,
                "keys": dict(result.trial.policy.sets),
                "cost_a_day": result.cost,
                "minutes_outside_a_day": result.broken,
                "refused_share": result.refused,
                "best": result is comparison.best,
                "by_day": [vars(day) for day in result.days],
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
        "diff": proposal.diff,
        "written": write and bool(proposal.diff),
    }
