"""Write the report page of a load test, whose tabs are also the first tabs of a search's page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from servable.load.objective import Knee
from servable.measured import document
from servable.measured.document import About, Cell, Picture, ReportTable, Row, Tab
from servable.measured.measurement import LoadCurve, LoadStep
from servable.measured.precision import compute_middles_ms, format_number
from servable.verdict import GateVerdict


@dataclass(frozen=True, kw_only=True)
class LoadContent:
    """The content of the page about one run."""

    label: str
    curve: LoadCurve
    """Curve of a load test, or of the chosen settings."""
    knee: Knee | None

    @property
    def knee_step(self) -> LoadStep | None:
        """Return the step nearest below the knee; without a knee, the first step with a response."""
        steps = [step for step in self.curve.valid_steps if step.latencies.count]
        if not steps or self.knee is None:
            return steps[0] if steps else None
        most = self.knee.load.value
        below = (step for step in steps if step.load <= most)
        return max(below, key=lambda step: step.load, default=steps[0])


FROM_SENDING = (
    "latency starts at sending, because not every class of the locustfile is an EndpointUser: it excludes "
    "the time that a request waits before it is sent"
)
NO_STEP = "No step is valid: every request failed or was sent late. See the table of steps."


def draw_throughput(contents: Sequence[LoadContent]) -> bytes:
    """Draw requests per second above and latencies below, with the knee in both."""
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
        for percent, line, marker in ((50, "-", "o"), (90, "--", "s"), (99, ":", "^")):
            milliseconds = [step.latencies.compute_percentile_ms(percent) for step in steps]
            look = {"color": colour, "linestyle": line, "label": f"{name}: p{percent}"}
            below.plot(loads, milliseconds, marker=marker, **look)
        if knee := content.knee:
            for axes in (above, below):
                axes.axvspan(knee.load.low, knee.load.high, color=colour, alpha=0.12, lw=0)
                axes.axvline(knee.load.value, color=colour, linestyle="--", label=format_knee(knee))
    for objective in {content.knee.objective for content in contents if content.knee}:
        look = {"color": document.RED, "linestyle": ":", "label": f"objective: {objective}"}
        below.axhline(objective.most_ms, **look)
    document.set_logarithmic(below, "y")
    if contents[0].curve.asked.is_relative:
        title += ": relative, because it was measured on one computer"
    document.format_axes(above, title=title, y="requests per second", zero="y")
    load = f"load, {contents[0].curve.unit}"
    document.format_axes(below, title="Latency against load", x=load, y="latency, ms (log)")
    return document.render_png(figure)


def format_knee(knee: Knee) -> str:
    """Format a knee for the legend."""
    return f"knee: {'' if knee.bounded else 'at least '}{knee.rps.short_text} requests/s"


def draw_distribution(contents: Sequence[LoadContent]) -> bytes:
    """Draw the share of requests slower than each latency at the knee, on a logarithmic scale.

    The scale is logarithmic because an objective concerns the tail.
    """
    title = "Share of requests that are slower than a latency, at the knee"
    figure = document.create_figure()
    axes = figure.subplots()
    for content, colour in zip(contents, document.OF_RUNS, strict=False):
        step = content.knee_step
        if step is None:
            continue
        latencies, numbers = step.latencies, sorted(step.latencies.bins)
        counts = np.cumsum([latencies.bins[number] for number in numbers])
        share = 100 * (1 - np.concatenate([[0], counts[:-1]]) / counts[-1])
        label = f"{content.label}, {format_number(step.load)} {content.curve.unit}"
        middles_ms = compute_middles_ms(np.array(numbers))
        axes.step(middles_ms, share, where="post", color=colour, label=label)
        for percent in (50.0, 90.0, 95.0, 99.0):
            axes.plot(latencies.compute_percentile_ms(percent), 100 - percent, "o", color=colour)
    if not axes.lines:
        return document.draw_empty_chart(NO_STEP, title=title)
    document.set_logarithmic(axes, "x")
    axes.set_yscale("log")
    shares = {100: "100", 50: "50 (p50)", 10: "10 (p90)", 5: "5 (p95)", 1: "1 (p99)", 0.1: "0.1"}
    axes.set_yticks(list(shares), list(shares.values()))
    axes.set_ylim(bottom=0.08, top=130)
    document.format_axes(axes, title=title, x="latency, ms (log)", y="slower than that, % (log)")
    return document.render_png(figure)


def write_load_report(
    folder: Path, curve: LoadCurve, knee: Knee | None, gate: GateVerdict | None = None
) -> Path | None:
    """Write the page of a load test and return its path; None if no step was measured."""
    if not curve.steps:
        return None
    label = curve.asked.environment or curve.asked.address
    contents = [LoadContent(label=label, curve=curve, knee=knee)]
    return write(folder, contents, build_curve_tabs(contents), gate)


def write(
    folder: Path,
    contents: Sequence[LoadContent],
    tabs: Sequence[Tab],
    gate: GateVerdict | None = None,
) -> Path:
    """Write report.html and pictures/*.png for one run or two runs. Return the page's path."""
    abouts = [_build_about(content) for content in contents]
    if gate is not None:
        abouts.insert(0, About("; ".join(gate.lines), "", gate.verdict))
    title = " against ".join(content.label for content in contents)
    relative = any(content.curve.asked.is_relative for content in contents)
    return document.write(folder, tabs, title=title, abouts=abouts, relative=relative)


def build_curve_tabs(contents: Sequence[LoadContent]) -> list[Tab]:
    """Build the tabs of throughput and latency."""
    alt = "requests per second and latency against load, with the knee"
    throughput = Picture("throughput", alt, draw_throughput(contents))
    alt = "share of requests slower than a latency"
    latency = Picture("latency", alt, draw_distribution(contents))
    steps = [_build_step_table(content) for content in contents]
    return [
        Tab("throughput", "Throughput", [throughput], tables=steps),
        Tab("latency", "Latency", [latency]),
    ]


def _build_about(content: LoadContent) -> About:
    """Return the result in one sentence, and the measurement's target, time, and requests."""
    curve, knee = content.curve, content.knee
    measured, steps = curve.asked, curve.valid_steps
    if knee is not None:
        found = f"{knee.objective}: {describe_knee(curve, knee)}."
    elif not steps:
        found = "no step is valid, because every step's requests were sent late."
    else:
        most = max((step.throughput_rps for step in steps), key=lambda rps: rps.value)
        found = f"at most {most} responses/s, without a knee."
    digest = measured.model_sha256[:12] if measured.model_sha256 else measured.model_at
    where = (
        f"{measured.target} {measured.address}",
        measured.instance_type or measured.machine,
        f"model {digest or 'unknown'}",
        measured.started_at,
        *measured.bodies,
        "" if all(step.from_due for step in curve.steps) else FROM_SENDING,
    )
    return About(f"{content.label}: {found}", " · ".join(filter(None, where)))


def describe_knee(curve: LoadCurve, knee: Knee) -> str:
    least, why = ("", "") if knee.bounded else ("at least ", "; no step exceeded the limit")
    return f"{least}{knee.rps} requests/s, at {knee.load} {curve.unit}{why}"


_HEADS = (
    "load", "requests/s", "p50, ms", "p90, ms", "p95, ms", "p99, ms", "failed", "busy cores",
    "memory, MiB", "generator CPU, %", "send lag p99, ms", "",
)  # fmt: skip


def _build_step_table(content: LoadContent) -> ReportTable:
    rows = []
    for step in content.curve.steps:
        used = step.target
        unsure = "" if step.has_known_throughput else "throughput not known within 5 %"
        cells: tuple[Cell, ...] = (
            step.load,
            (str(step.throughput_rps), step.throughput_rps.value),
            *(step.latencies.compute_percentile_ms(percent) for percent in (50, 90, 95, 99)),
            step.failure_count,
            *((used.cpu_cores, used.memory_mib) if used else ("", "")),
            100 * step.generator_cpu_share,
            step.send_lags.p99_ms,
            step.rejection or unsure,
        )
        rows.append(Row(cells, "failed" if step.rejection else ""))
    return ReportTable(f"Steps of {content.label}", _HEADS, rows)
