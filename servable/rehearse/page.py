"""The page of a rehearsed day: requests, instances, latency, alarms, scaling; and compared policies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from servable.pages import document, style
from servable.pages.document import About, Picture, ReportTable, Row, Tab
from servable.rehearse.candidates import PolicyProposal
from servable.rehearse.comparison import PolicyComparison, PolicyResult
from servable.rehearse.comparison_output import by_cost, heads, row
from servable.rehearse.comparison_output import lines as conclusions
from servable.rehearse.output import HEADS, asleep, clock, lines, rows, stretches, verdict
from servable.rehearse.rehearsal import Rehearsal

# Minutes before and behind a stretch outside of the objective; the least width of one in a picture.
AROUND_MINUTES, LEAST_SHARE = 60, 0.006


def write(folder: Path, result: Rehearsal, more: Sequence[Tab] = ()) -> Path:
    """report.html and pictures/*.png in `folder`, with `more` tabs first. Returns the page."""
    hours = [Row(cells, "failed" if cells[-1] else "") for cells in rows(result)]
    activities = [
        Row((activity.started.strftime("%H:%M"), activity.description, activity.cause))
        for activity in result.day.activities
    ]
    scaling = ReportTable("What scaling did", ("at", "what", "why"), activities)
    tabs = [
        *more,
        Tab(
            "day",
            "Day",
            _pictures(result),
            list(lines(result))[:-1],
            [ReportTable("By the hour", HEADS, hours)],
        ),
        Tab("alarms", "Alarms", tables=[_alarms(result)]),
        Tab("scaling", "Scaling", tables=[scaling]),
    ]
    title = f"{result.environment}, {result.variant}: a day rehearsed"
    where = f"instance: {result.measured.source}; nothing ran, and nothing was paid"
    return document.write(folder, tabs, title=title, abouts=[About(verdict(result), where)])


def _pictures(result: Rehearsal) -> list[Picture]:
    """The day, and where it breaks the minutes around the longest stretch, which a day hardly shows."""
    count, alt = len(result.day.minutes), "requests, instances and latency by the hour"
    pictures = [Picture("day", alt, _day(result, 0, count))]
    if broken := stretches(result.day.broken):
        first, last = max(broken, key=lambda stretch: stretch[1] - stretch[0])
        begin, end = max(0, first - AROUND_MINUTES), min(count, last + 1 + AROUND_MINUTES)
        if end - begin < count:
            alt = f"the same from {clock(begin)} to {clock(end)}, around the minutes outside"
            pictures.append(Picture("outside", alt, _day(result, begin, end)))
    return pictures


def _day(result: Rehearsal, begin: int, end: int) -> bytes:
    minutes = result.day.minutes[begin:end]
    hours = [minute / 60 for minute in range(begin, end)]
    figure = style.figure(high=10.0)
    traffic, fleet, latency = figure.subplots(3, 1, sharex=True)
    sent = [minute.requests / 60 for minute in minutes]
    traffic.plot(hours, sent, color=style.BLUE, label="sent")
    if result.scenario.sleep is not None:
        waiting = [minute.waiting / 60 for minute in minutes]
        traffic.fill_between(hours, waiting, color=style.ORANGE, lw=0, label="find no copy")
    refused = [minute.refused / 60 for minute in minutes]
    traffic.fill_between(hours, refused, color=style.RED, lw=0, label="refused")
    # A stretch of minutes is as wide as an eye sees, and begins where it began.
    least = (end - begin) * LEAST_SHARE
    for number, (first, last) in enumerate(asleep(result)):
        for axes in (traffic, fleet, latency):
            name = "asleep: no copy\nanswers" if not number and axes is latency else None
            axes.axvspan(first / 60, (last + 1) / 60, color=style.BLUE, alpha=0.1, lw=0, label=name)
    for number, (first, last) in enumerate(stretches(result.day.broken)):
        for axes in (traffic, fleet, latency):
            name = "outside of\nthe objective" if not number and axes is latency else None
            ends = max(last + 1, first + least) / 60
            axes.axvspan(first / 60, ends, color=style.RED, alpha=0.18, lw=0, label=name)
    answering = [minute.answering for minute in minutes]
    fleet.step(hours, answering, where="post", color=style.GREEN, label="answering")
    paid = [minute.paid for minute in minutes]
    fleet.step(hours, paid, where="post", color=style.GREY, linestyle=":", label="paid")
    for percent, colour in (("p50_ms", style.BLUE), ("p99_ms", style.ORANGE)):
        latencies_ms = [getattr(minute, percent) or float("nan") for minute in minutes]
        latency.plot(hours, latencies_ms, color=colour, label=percent.removesuffix("_ms"))
    if (most := result.scenario.p99_ms) is not None:
        label = f"objective: p99 at most\n{most:g} ms"
        latency.axhline(most, color=style.RED, linestyle="--", label=label)
    for number, minute in enumerate(result.day.woken):
        for axes in (traffic, fleet, latency):
            name = "on-call engineer\nis woken" if not number and axes is latency else None
            axes.axvline(minute / 60, color=style.RED, linestyle=":", label=name)
    latency.set_yscale("log")
    latency.yaxis.set_major_formatter("{x:,g}")
    latency.yaxis.set_minor_formatter("")
    style.finish(traffic, title="Requests", y="per second", zero="y")
    style.finish(fleet, title="Instances", y="instances", zero="y")
    style.finish(latency, title="Latency", x="hour of the day", y="ms (log)")
    latency.set_xlim(begin / 60, end / 60)
    return style.png(figure)


def _alarms(result: Rehearsal) -> ReportTable:
    changes: list[tuple[str, ...]] = [
        (alarm.at.strftime("%H:%M"), alarm.alarm, alarm.before, alarm.state)
        for alarm in result.day.alarms
    ]
    changes += [(clock(at), "the on-call engineer is woken", "", "") for at in result.day.woken]
    changes.sort(key=lambda cells: cells[0])
    table = [Row(cells, "failed" if cells[-1] in ("ALARM", "") else "") for cells in changes]
    return ReportTable("Alarms that changed", ("at", "alarm", "before", "state"), table)


def comparison_tab(comparison: PolicyComparison, proposed: PolicyProposal, *, priced: bool) -> Tab:
    """Compared policies: cost against minutes outside of the objective."""
    alt = "cost of each policy against its minutes outside"
    table = []
    for policy in by_cost(comparison):
        name, cost, broken, refused, *more, marks = row(policy, comparison)
        share = (refused, float(refused.rstrip("%")))
        waiting = [(each, policy.waiting) for each in more]
        numbers = ((cost, policy.cost), (broken, policy.broken), share, *waiting)
        table.append(Row((name, *numbers, marks), "chosen" if policy is comparison.best else ""))
    return Tab(
        "comparison",
        "Comparison",
        [Picture("comparison", alt, _scatter(comparison, priced))],
        list(conclusions(comparison, priced=priced)),
        [ReportTable("Policies by cost", heads(comparison, priced=priced), table)],
        proposed.diff,
    )


def _scatter(comparison: PolicyComparison, priced: bool) -> bytes:
    figure = style.figure()
    axes = figure.subplots()

    def draw(policies: Sequence[PolicyResult], form: str, **look: Any) -> None:
        axes.plot([p.cost for p in policies], [p.broken for p in policies], form, **look)

    unbeaten = [policy for policy in by_cost(comparison) if policy.unbeaten]
    beaten = [policy for policy in comparison.compared if not policy.unbeaten]
    draw(beaten, "o", color=style.GREY, alpha=0.5, label="beaten by another")
    draw(unbeaten, "o-", color=style.GREEN, label="not beaten", drawstyle="steps-post")
    draw(comparison.compared[:1], "s", color=style.ORANGE, markersize=9, label="the file")
    if comparison.best is not None:
        label = f"best: {comparison.best.trial.alternative.label}"
        draw([comparison.best], "o", color=style.BLUE, markersize=15, fillstyle="none", label=label)
    title = f"Each policy on the same {comparison.days} random days"
    x = f"{'$' if priced else 'instance hours'} a day"
    style.finish(axes, title=title, x=x, y="minutes a day outside of the objective", zero="xy")
    axes.set_ylim(bottom=-0.07 * axes.get_ylim()[1])  # the ring around a zero is whole
    return style.png(figure)
