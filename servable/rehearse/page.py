"""Write the page of a rehearsed day: requests, instances, latency, alarms, scaling, policies."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from servable.measured import document
from servable.measured.document import About, Picture, ReportTable, Row, Tab
from servable.rehearse.comparison import PolicyComparison, sort_by_cost
from servable.rehearse.output import (
    HEADS,
    find_asleep,
    format_clock,
    format_row,
    join_minutes,
    list_comparison_conclusions,
    list_comparison_heads,
    list_conclusions,
    list_rows,
    state_comparison_verdict,
    state_verdict,
)
from servable.rehearse.rehearsal import Rehearsal

# Minutes enlarged before and after those that matter, and of a long run of them.
AROUND_MINUTES, LONGEST_MINUTES = 30, 60
# The minimum width of a run of minutes, as a share of the chart.
NARROWEST_SHARE = 0.006
# Steps between two labeled times, in minutes, and the maximum number of labels.
TIME_STEPS, MOST_TIMES = (5, 10, 15, 30, 60, 120, 180, 360, 720, 1440), 13


def write_page(
    folder: Path, result: Rehearsal, comparison: PolicyComparison | None = None, diff: str = ""
) -> Path:
    """Write report.html and pictures/*.png into `folder`, and return the page's path."""
    title = f"{result.environment}, {result.variant}: a day rehearsed"
    where = (
        f"instance: {result.measured.source}; simulated, without running or paying for instances"
    )
    # The page shows the verdict's word before the sentence.
    sentence = state_verdict(result).removeprefix(f"{result.verdict}: ")
    abouts = [About(f"The file's day: {sentence}", where, result.verdict)]
    tabs = _build_day_tabs(result)
    if comparison is not None:
        sentence = f"Policies: {state_comparison_verdict(comparison)}"
        judged = "each policy with the slowest instances, on the same random days"
        abouts.insert(0, About(sentence, judged, comparison.verdict))
        tabs.insert(0, _build_comparison_tab(comparison, diff))
    return document.write(folder, tabs, title=title, abouts=abouts)


def _build_day_tabs(result: Rehearsal) -> list[Tab]:
    hours = [Row(cells, "failed" if cells[-1] else "") for cells in list_rows(result)]
    pictures = _draw_pictures(result)
    texts = list(list_conclusions(result))[:-1]
    changes: list[tuple[str, ...]] = [
        (alarm.at.strftime("%H:%M"), alarm.alarm, alarm.before, alarm.state)
        for alarm in result.day.alarms
    ]
    for minute in result.day.woken:
        changes.append((format_clock(minute), "the on-call engineer is woken", "", ""))
    changes.sort(key=lambda cells: cells[0])
    alarms = [Row(cells, "failed" if cells[-1] in ("ALARM", "") else "") for cells in changes]
    activities = [
        Row((activity.started.strftime("%H:%M"), activity.description, activity.cause))
        for activity in result.day.activities
    ]
    alarm_heads = ("at", "alarm", "before", "state")
    return [
        Tab("day", "Day", pictures, texts, [ReportTable("By the hour", HEADS, hours)]),
        Tab("alarms", "Alarms", tables=[ReportTable("Alarms that changed", alarm_heads, alarms)]),
        Tab("scaling", "Scaling",
            tables=[ReportTable("What scaling did", ("at", "what", "why"), activities)]),
    ]  # fmt: skip


def _draw_pictures(result: Rehearsal) -> list[Picture]:
    """Draw the most relevant minutes, enlarged, and then the whole day."""
    count = len(result.day.minutes)
    begin, end, why = _find_relevant_minutes(result)
    pictures = []
    if end - begin < count:
        title = f"{why}: {format_clock(begin)} to {format_clock(end)}"
        alt = f"requests, instances, and latency, enlarged; {title}"
        pictures.append(Picture("enlarged", alt, _draw_minutes(result, begin, end, title)))
    alt = "requests, instances, and latency of the whole day"
    pictures.append(Picture("day", alt, _draw_minutes(result, 0, count, "The whole day")))
    return pictures


def _find_relevant_minutes(result: Rehearsal) -> tuple[int, int, str]:
    """Return (first minute, end, reason) of the minutes to enlarge.

    They surround the longest run outside of the objective, or the minutes that come nearest to
    it.
    """
    minutes = result.day.minutes
    if broken := join_minutes(result.day.broken):
        first, last = max(broken, key=lambda run: run[1] - run[0])
        why = "The longest time outside of the objective"
        if last - first >= LONGEST_MINUTES:
            last, why = first + LONGEST_MINUTES, "The start of the longest time outside"
    elif result.day.waiting_callers:
        first = last = max(range(len(minutes)), key=lambda at: minutes[at].waiting)
        why = "When most callers find no copy"
    else:
        first = last = max(
            range(len(minutes)), key=lambda at: (minutes[at].breaks, minutes[at].use)
        )
        why = "The minute with the least spare capacity"
    return max(0, first - AROUND_MINUTES), min(len(minutes), last + 1 + AROUND_MINUTES), why


def _draw_minutes(result: Rehearsal, begin: int, end: int, title: str) -> bytes:
    minutes, times = result.day.minutes[begin:end], range(begin, end)
    figure = document.create_figure(high=10.0)
    traffic, fleet, latency = figure.subplots(3, 1, sharex=True)
    sent = [minute.requests / 60 for minute in minutes]
    traffic.plot(times, sent, color=document.BLUE, label="sent")
    if result.scenario.sleep is not None:
        waiting = [minute.waiting / 60 for minute in minutes]
        traffic.fill_between(times, waiting, color=document.ORANGE, lw=0, label="find no copy")
    refused = [minute.refused / 60 for minute in minutes]
    traffic.fill_between(times, refused, color=document.RED, lw=0, label="refused")
    answering = [minute.answering for minute in minutes]
    fleet.step(times, answering, where="post", color=document.GREEN, label="answering")
    paid = [minute.paid for minute in minutes]
    fleet.step(times, paid, where="post", color=document.GREY, linestyle=":", label="paid")
    for percent, colour in (("p50_ms", document.BLUE), ("p99_ms", document.ORANGE)):
        latencies_ms = [getattr(minute, percent) or float("nan") for minute in minutes]
        latency.plot(times, latencies_ms, color=colour, label=percent.removesuffix("_ms"))
    if (most := result.scenario.p99_ms) is not None:
        label = f"objective: p99 at most\n{most:g} ms"
        latency.axhline(most, color=document.RED, linestyle="--", label=label)
    document.set_logarithmic(latency, "y")
    for axes in (traffic, fleet, latency):
        _mark_minutes(axes, result, (end - begin) * NARROWEST_SHARE, named=axes is latency)
    document.format_axes(traffic, title=f"{title}\nRequests", y="per second", zero="y")
    fleet.yaxis.set_major_locator(MaxNLocator(integer=True))
    document.format_axes(fleet, title="Instances", y="instances", zero="y")
    document.format_axes(latency, title="Latency", x="time of the day", y="ms (log)")
    step = next((step for step in TIME_STEPS if (end - begin) / step < MOST_TIMES), TIME_STEPS[-1])
    latency.set_xlim(begin, end)
    latency.set_xticks(range(-(-begin // step) * step, end + 1, step))
    latency.xaxis.set_major_formatter(lambda minute, _: format_clock(round(minute)))
    return document.render_png(figure)


def _mark_minutes(axes: Axes, result: Rehearsal, narrowest: float, *, named: bool) -> None:
    """Shade the minutes asleep and outside of the objective, and mark those with a page.

    A page is an alarm that wakes the on-call engineer.
    """
    for number, (first, last) in enumerate(find_asleep(result)):
        name = "asleep: no copy\nanswers" if named and not number else None
        axes.axvspan(first, last + 1, color=document.BLUE, alpha=0.1, lw=0, label=name)
    for number, (first, last) in enumerate(join_minutes(result.day.broken)):
        name = "outside of\nthe objective" if named and not number else None
        end = max(last + 1, first + narrowest)
        axes.axvspan(first, end, color=document.RED, alpha=0.18, lw=0, label=name)
    for number, minute in enumerate(result.day.woken):
        name = "on-call engineer\nis woken" if named and not number else None
        axes.axvline(minute, color=document.RED, linestyle=":", label=name)


def _build_comparison_tab(comparison: PolicyComparison, diff: str) -> Tab:
    """Build the tab that compares policies by cost and minutes outside of the objective."""
    rows = []
    for policy in sort_by_cost(comparison.compared):
        name, cost, broken, refused, mark = format_row(policy, comparison)
        numbers = zip((cost, broken, refused), policy.average, strict=True)
        rows.append(Row((name, *numbers, mark), "chosen" if mark else ""))
    return Tab(
        "comparison",
        "Comparison",
        texts=list(list_comparison_conclusions(comparison))[:-1],
        tables=[ReportTable("Policies by cost", list_comparison_heads(comparison), rows)],
        diff=diff,
    )
