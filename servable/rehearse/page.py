"""The page of a rehearsed day: what callers saw, what ran, which alarms fired and what scaling did."""

from collections.abc import Sequence
from pathlib import Path

from servable.rehearse.output import HEADS, clock, lines, rows, verdict
from servable.rehearse.rehearsal import Rehearsal
from servable.report import style
from servable.report.page import Picture, Tab, render, write_tabs
from servable.report.tables import Cell, ReportTable, Row


def write(folder: Path, result: Rehearsal, more: Sequence[Tab] = ()) -> Path:
    """report.html and pictures/*.png in `folder`, with `more` tabs first. Returns the page."""
    shown = [*more, *tabs(result)]
    title = f"{result.environment}, {result.variant}: a day rehearsed"
    where = f"instance: {result.measured.source}; nothing ran, and nothing was paid"
    text = render(title=title, abouts=[{"sentence": verdict(result), "where": where}], tabs=shown)
    return write_tabs(folder, shown, text)


def tabs(result: Rehearsal) -> list[Tab]:
    day = Picture("day", "requests, instances and latency by the hour", _day(result))
    hours = ReportTable(
        "By the hour", HEADS, tuple(Row(tuple(map(Cell, row)), _kind(row)) for row in rows(result))
    )
    return [
        Tab("day", "Day", (day,), tuple(lines(result))[:-1], (hours,)),
        Tab("alarms", "Alarms", tables=(_alarms(result),)),
        Tab("scaling", "Scaling", tables=(_activities(result),)),
    ]


def _kind(row: tuple[str, ...]) -> str:
    return "failed" if row[-1] else ""


def _day(result: Rehearsal) -> bytes:
    minutes = result.day.minutes
    hours = [minute / 60 for minute in range(len(minutes))]
    figure = style.figure(high=10.0)
    traffic, fleet, latency = figure.subplots(3, 1, sharex=True)
    sent = [minute.requests / 60 for minute in minutes]
    traffic.plot(hours, sent, color=style.BLUE, label="sent")
    refused = [minute.refused / 60 for minute in minutes]
    traffic.fill_between(hours, refused, color=style.RED, lw=0, label="refused")
    answering = [minute.answering for minute in minutes]
    fleet.step(hours, answering, where="post", color=style.GREEN, label="answering")
    paid = [minute.paid for minute in minutes]
    fleet.step(hours, paid, where="post", color=style.GREY, linestyle=":", label="paid")
    for percent, colour in (("p50_ms", style.BLUE), ("p99_ms", style.ORANGE)):
        latencies_ms = [getattr(minute, percent) or float("nan") for minute in minutes]
        latency.plot(hours, latencies_ms, color=colour, label=percent.removesuffix("_ms"))
    if result.scenario.p99_ms is not None:
        most = result.scenario.p99_ms
        label = f"objective: p99 at most\n{most:g} ms"
        latency.axhline(most, color=style.RED, linestyle="--", label=label)
    for number, minute in enumerate(result.day.woken):
        for axes in (traffic, fleet, latency):
            name = "on-call engineer\nis woken" if not number and axes is latency else None
            axes.axvline(minute / 60, color=style.RED, linestyle=":", label=name)
    latency.set_yscale("log")
    latency.yaxis.set_major_formatter("{x:,g}")
    latency.yaxis.set_minor_formatter("")
    style.finish(traffic, title="Requests", x="", y="per second")
    style.finish(fleet, title="Instances", x="", y="instances")
    style.finish(latency, title="Latency", x="hour of the day", y="ms (log)")
    style.from_zero(traffic)
    style.from_zero(fleet)
    latency.set_xlim(0, len(minutes) / 60)
    return style.png(figure)


def _alarms(result: Rehearsal) -> ReportTable:
    alarms = [
        Row(
            tuple(map(Cell, (alarm.at.strftime("%H:%M"), alarm.alarm, alarm.before, alarm.state))),
            "failed" if alarm.state == "ALARM" else "",
        )
        for alarm in result.day.alarms
    ]
    woken = [
        Row(
            (Cell(clock(minute)), Cell("the on-call engineer is woken"), Cell(""), Cell("")),
            "failed",
        )
        for minute in result.day.woken
    ]
    several = sorted([*alarms, *woken], key=lambda row: row.cells[0].text)
    return ReportTable("Alarms that changed", ("at", "alarm", "before", "state"), tuple(several))


def _activities(result: Rehearsal) -> ReportTable:
    rows = []
    for activity in result.day.activities:
        described = activity.describe(str(activity.number))
        at = described["StartTime"].strftime("%H:%M")
        cells = (at, str(described["Description"]), str(described["Cause"]))
        rows.append(Row(tuple(map(Cell, cells))))
    return ReportTable("What scaling did", ("at", "what", "why"), tuple(rows))
