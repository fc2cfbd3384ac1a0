"""Write the report page of a load test, which also forms the first tabs of a search's page.

It also draws the page's charts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from servable.load.measurement import LoadCurve, LoadStep
from servable.load.objective import Knee, Objective, find_knee
from servable.measured import document
from servable.measured.document import About, Cell, Picture, ReportTable, Row, Tab
from servable.measured.precision import Latencies, compute_middles_ms, format_number


@dataclass(frozen=True, kw_only=True)
class LoadContent:
    """The content of the page about one run."""

    label: str
    curve: LoadCurve
    """Curve of a load test, or of the chosen settings."""
    knee: Knee | None

    @property
    def knee_step(self) -> LoadStep | None:
        """Return the step nearest below the knee.

        Without a knee, return the first step with a response; None if there is none.
        """
        steps = [step for step in self.curve.valid_steps if step.latencies.count]
        if not steps or self.knee is None:
            return steps[0] if steps else None
        most = self.knee.load.value
        below = (step for step in steps if step.load <= most)
        return max(below, key=lambda step: step.load, default=steps[0])


FROM_SENDING = (
    "latency starts at sending, because not every class of the locustfile is an EndpointUser: what a request "
    "waits before it is sent isn't part of it"
)
NO_STEP = "No step counts: every request failed or was sent late. See the table of steps."


def draw_throughput(contents: Sequence[LoadContent]) -> bytes:
    """Draw requests per second above and latency bands below, with the knee in both."""
    title = "Throughput against load"
    if not any(step.latencies.bins for content in contents for step in content.curve.valid_steps):
        return document.draw_empty_chart(NO_STEP, title=title)
    figure = document.create_figure(high=7.4)
    above, below = figure.subplots(2, 1, sharex=True)
    for content, colour in zip(contents, document.OF_RUNS, strict=False):
        steps, name = content.curve.valid_steps, content.label
        loads = [step.load for step in steps]
        rps = [step.throughput_rps for step in steps]
        document.draw_intervals(
            above, loads, rps, color=colour, marker="o", label=f"{name}: 95 % interval"
        )
        p50, p90, p99 = (
            [step.latencies.compute_percentile_ms(percent) for step in steps]
            for percent in (50, 90, 99)
        )
        below.plot(loads, p50, color=colour, marker="o", label=f"{name}: p50")
        below.fill_between(loads, p50, p90, color=colour, alpha=0.35, lw=0, label="p50 to p90")
        below.fill_between(loads, p90, p99, color=colour, alpha=0.15, lw=0, label="p90 to p99")
        if knee := content.knee:
            for axes in (above, below):
                axes.axvspan(knee.load.low, knee.load.high, color=colour, alpha=0.12, lw=0)
            above.axvline(knee.load.value, color=colour, linestyle="--", label=format_knee(knee))
            below.axvline(knee.load.value, color=colour, linestyle="--")
    for objective in {content.knee.objective for content in contents if content.knee}:
        label = f"objective: p{objective.percent:g} at most {objective.most_ms:g} ms"
        below.axhline(objective.most_ms, color=document.RED, linestyle=":", label=label)
    document.set_logarithmic(below, "y")
    if contents[0].curve.asked.is_relative:
        title += ": relative, measured on one computer"
    document.format_axes(above, title=title, y="requests per second", zero="y")
    load = _format_load_label(contents[0].curve)
    document.format_axes(below, title="Latency against load", x=load, y="latency, ms (log)")
    return document.render_png(figure)


def format_knee(knee: Knee) -> str:
    """Format a knee for the legend.

    Where no step broke the objective, the knee is a lower bound and is shown as "at least".
    """
    return f"knee: {'' if knee.bounded else 'at least '}{knee.rps.short_text} requests/s"


def draw_distribution(contents: Sequence[LoadContent]) -> bytes:
    """Draw the share of requests slower than each latency, at the knee."""
    latencies = []
    for content in contents:
        step = content.knee_step
        users = step and (
            f"{step.users} users" if step.users else f"{format_number(step.load)} requests/s"
        )
        latencies.append((f"{content.label}, {users}", step.latencies if step else Latencies()))
    return draw_slower_than(
        "Share of requests that are slower than a latency, at the knee", latencies
    )


def draw_slower_than(title: str, latencies: Sequence[tuple[str, Latencies]]) -> bytes:
    """Draw the share of requests slower than each latency, on a logarithmic scale.

    The scale is logarithmic because an objective concerns the tail.

    `latencies`: each with its name in the legend.
    """
    if not any(each.bins for _, each in latencies):
        return document.draw_empty_chart(NO_STEP, title=title)
    figure = document.create_figure()
    axes = figure.subplots()
    for (name, each), colour in zip(latencies, document.OF_RUNS, strict=False):
        if not each.bins:
            continue
        numbers = sorted(each.bins)
        counts = np.cumsum([each.bins[number] for number in numbers])
        share = 100 * (1 - np.concatenate([[0], counts[:-1]]) / counts[-1])
        axes.step(
            compute_middles_ms(np.array(numbers)), share, where="post", color=colour, label=name
        )
        for percent in (50.0, 90.0, 95.0, 99.0):
            axes.plot(each.compute_percentile_ms(percent), 100 - percent, "o", color=colour)
    document.set_logarithmic(axes, "x")
    axes.set_yscale("log")
    axes.set_yticks(
        [100, 50, 10, 5, 1, 0.1], ["100", "50 (p50)", "10 (p90)", "5 (p95)", "1 (p99)", "0.1"]
    )
    axes.set_ylim(bottom=0.08, top=130)
    document.format_axes(axes, title=title, x="latency, ms (log)", y="slower than that, % (log)")
    return document.render_png(figure)


def draw_machine(contents: Sequence[LoadContent]) -> bytes:
    """Draw the CPU cores and memory in MiB of the endpoint's processes against load."""
    title = "CPU and memory of the endpoint against load"
    if not any(step.target for content in contents for step in content.curve.valid_steps):
        return document.draw_empty_chart(
            "Not known: only an endpoint on this computer is looked at.", title=title
        )
    figure = document.create_figure(high=6.2)
    above, below = figure.subplots(2, 1, sharex=True)
    for content, colour in zip(contents, document.OF_RUNS, strict=False):
        steps = [(step.load, step.target) for step in content.curve.valid_steps if step.target]
        loads, label = [load for load, _ in steps], f"{content.label}: endpoint"
        cores = [used.cpu_cores for _, used in steps]
        above.plot(loads, cores, color=colour, marker="o", label=label)
        memory = [used.memory_mib for _, used in steps]
        below.plot(loads, memory, color=colour, marker="o", label=label)
    document.format_axes(above, title=title, y="CPU, cores busy", zero="y")
    document.format_axes(below, x=_format_load_label(contents[0].curve), y="memory, MiB", zero="y")
    return document.render_png(figure)


def _format_load_label(curve: LoadCurve) -> str:
    if curve.loop == "open":
        return "requests sent per second"
    return "users, each asking again as soon as it is answered"


def write_load_report(folder: Path, curve: LoadCurve, objective: Objective | None) -> Path | None:
    """Write the page of a load test and return its path; None if no step was measured."""
    if not curve.steps:
        return None
    label = curve.asked.environment or curve.asked.address
    at = find_knee(curve, objective) if objective else None
    contents = [LoadContent(label=label, curve=curve, knee=at)]
    return write(folder, contents, build_curve_tabs(contents))


def write(folder: Path, contents: Sequence[LoadContent], tabs: Sequence[Tab]) -> Path:
    """Write report.html and pictures/*.png for one run or two runs. Return the page's path."""
    return document.write(
        folder,
        tabs,
        title=" against ".join(content.label for content in contents),
        abouts=[_build_about(content) for content in contents],
        relative=any(content.curve.asked.is_relative for content in contents),
    )


def build_curve_tabs(contents: Sequence[LoadContent]) -> list[Tab]:
    """Build the tabs of throughput, latency, and CPU and memory."""
    alt = "requests per second and latency against load, with the knee"
    throughput = Picture("throughput", alt, draw_throughput(contents))
    alt = "share of requests slower than a latency"
    latency = Picture("latency", alt, draw_distribution(contents))
    machine = Picture("machine", "CPU and memory against load", draw_machine(contents))
    steps = [_build_step_table(content) for content in contents]
    return [
        Tab("throughput", "Throughput", [throughput], tables=steps),
        Tab("latency", "Latency", [latency]),
        Tab("machine", "CPU and memory", [machine]),
    ]


def _build_about(content: LoadContent) -> About:
    """Return the result in one sentence, and the measurement's target, time, and requests."""
    measured = content.curve.asked
    digest = measured.model_sha256[:12] if measured.model_sha256 else measured.model_at
    place = measured.instance_type or measured.machine
    parts = (f"{measured.target} {measured.address}", place, f"model {digest or 'unknown'}")
    steps = content.curve.steps
    note = "" if all(step.from_due for step in steps) else FROM_SENDING
    where = (*parts, measured.started_at, *measured.bodies, note)
    return About(f"{content.label}: {_describe_result(content)}", " · ".join(filter(None, where)))


def _describe_result(content: LoadContent) -> str:
    steps, knee = content.curve.valid_steps, content.knee
    if knee is not None:
        objective = f"p{knee.objective.percent:g} at most {knee.objective.most_ms:g} ms"
        least = "" if knee.bounded else "at least "
        unit = "users" if content.curve.loop == "closed" else "sent per second"
        return f"{least}{knee.rps} requests/s at {objective}, with {knee.load} {unit}."
    if not steps:
        return "no step counts: the requests of every step were sent late."
    most = max((step.throughput_rps for step in steps), key=lambda rps: rps.value)
    return f"at most {most} requests/s were answered; no load is known to keep an objective."


def _build_step_table(content: LoadContent) -> ReportTable:
    rows = []
    for step in content.curve.steps:
        used = step.target
        cells: tuple[Cell, ...] = (
            step.load,
            (str(step.throughput_rps), step.throughput_rps.value),
            *(step.latencies.compute_percentile_ms(percent) for percent in (50, 90, 95, 99)),
            step.failure_count,
            *((used.cpu_cores, used.memory_mib) if used else ("", "")),
            100 * step.generator_cpu_share,
            step.send_lags.p99_ms,
            step.rejection
            or ("" if step.has_known_throughput else "throughput not known within 5 %"),
        )
        rows.append(Row(cells, "failed" if step.rejection else ""))
    heads = (
        "load", "requests/s", "p50, ms", "p90, ms", "p95, ms", "p99, ms", "failed", "cores busy",
        "memory, MiB", "generator CPU, %", "send lag p99, ms", "",
    )  # fmt: skip
    return ReportTable(f"Steps of {content.label}", heads, rows)
