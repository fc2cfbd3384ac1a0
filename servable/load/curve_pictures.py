"""Pictures of a load curve: throughput and latency over the load, one step's latencies, CPU."""

from collections.abc import Sequence

import numpy as np

from servable.load.content import LoadContent
from servable.load.knee import Knee
from servable.load.measurement import LoadCurve
from servable.measured import style
from servable.measured.precision import Latencies, middles_ms, readable

NO_STEP = "No step counts: every request failed or was sent late. See the table of steps."


def throughput(contents: Sequence[LoadContent]) -> bytes:
    """Requests per second above, latency bands below, the knee in both."""
    title = "Throughput against load"
    if not any(step.latencies.bins for content in contents for step in content.curve.valid):
        return style.nothing(NO_STEP, title=title)
    figure = style.figure(high=7.4)
    above, below = figure.subplots(2, 1, sharex=True)
    for content, colour in zip(contents, style.OF_RUNS, strict=False):
        steps, name = content.curve.valid, content.label
        loads = [step.load for step in steps]
        rps = [step.throughput_rps for step in steps]
        style.intervals(above, loads, rps, color=colour, marker="o", label=f"{name}: 95 % interval")
        p50, p90, p99 = (
            [step.latencies.percentile_ms(percent) for step in steps] for percent in (50, 90, 99)
        )
        below.plot(loads, p50, color=colour, marker="o", label=f"{name}: p50")
        below.fill_between(loads, p50, p90, color=colour, alpha=0.35, lw=0, label="p50 to p90")
        below.fill_between(loads, p90, p99, color=colour, alpha=0.15, lw=0, label="p90 to p99")
        if knee := content.knee:
            for axes in (above, below):
                axes.axvspan(knee.load.low, knee.load.high, color=colour, alpha=0.12, lw=0)
            above.axvline(knee.load.value, color=colour, linestyle="--", label=label_of(knee))
            below.axvline(knee.load.value, color=colour, linestyle="--")
    for objective in {content.knee.objective for content in contents if content.knee}:
        label = f"objective: p{objective.percent:g} at most {objective.most_ms:g} ms"
        below.axhline(objective.most_ms, color=style.RED, linestyle=":", label=label)
    style.logarithmic(below, "y")
    if contents[0].curve.asked.relative:
        title += ": relative, measured on one computer"
    style.finish(above, title=title, y="requests per second", zero="y")
    load = _load_label(contents[0].curve)
    style.finish(below, title="Latency against load", x=load, y="latency, ms (log)")
    return style.png(figure)


def label_of(knee: Knee) -> str:
    """Return the legend's entry of a knee; where no step broke the objective, it is a lower bound."""
    return f"knee: {'' if knee.bounded else 'at least '}{knee.rps.short} requests/s"


def distribution(contents: Sequence[LoadContent]) -> bytes:
    """Share of requests slower than each latency, at the knee."""
    latencies = []
    for content in contents:
        step = content.at_knee
        users = step and (
            f"{step.users} users" if step.users else f"{readable(step.load)} requests/s"
        )
        latencies.append((f"{content.label}, {users}", step.latencies if step else Latencies()))
    return slower_than("Share of requests that are slower than a latency, at the knee", latencies)


def slower_than(title: str, latencies: Sequence[tuple[str, Latencies]]) -> bytes:
    """Share of requests slower than each latency; a log scale, since an objective concerns the tail.

    `latencies`: with the name of each in the legend.
    """
    if not any(each.bins for _, each in latencies):
        return style.nothing(NO_STEP, title=title)
    figure = style.figure()
    axes = figure.subplots()
    for (name, each), colour in zip(latencies, style.OF_RUNS, strict=False):
        if not each.bins:
            continue
        numbers = sorted(each.bins)
        counts = np.cumsum([each.bins[number] for number in numbers])
        share = 100 * (1 - np.concatenate([[0], counts[:-1]]) / counts[-1])
        axes.step(middles_ms(np.array(numbers)), share, where="post", color=colour, label=name)
        for percent in (50.0, 90.0, 95.0, 99.0):
            axes.plot(each.percentile_ms(percent), 100 - percent, "o", color=colour)
    style.logarithmic(axes, "x")
    axes.set_yscale("log")
    axes.set_yticks(
        [100, 50, 10, 5, 1, 0.1], ["100", "50 (p50)", "10 (p90)", "5 (p95)", "1 (p99)", "0.1"]
    )
    axes.set_ylim(bottom=0.08, top=130)
    style.finish(axes, title=title, x="latency, ms (log)", y="slower than that, % (log)")
    return style.png(figure)


def machine(contents: Sequence[LoadContent]) -> bytes:
    """CPU cores and memory in MiB of the endpoint's processes against load."""
    title = "CPU and memory of the endpoint against load"
    if not any(step.target for content in contents for step in content.curve.valid):
        return style.nothing(
            "Not known: only an endpoint on this computer is looked at.", title=title
        )
    figure = style.figure(high=6.2)
    above, below = figure.subplots(2, 1, sharex=True)
    for content, colour in zip(contents, style.OF_RUNS, strict=False):
        steps = [(step.load, step.target) for step in content.curve.valid if step.target]
        loads, label = [load for load, _ in steps], f"{content.label}: endpoint"
        cores = [used.cpu_cores for _, used in steps]
        above.plot(loads, cores, color=colour, marker="o", label=label)
        memory = [used.memory_mib for _, used in steps]
        below.plot(loads, memory, color=colour, marker="o", label=label)
    style.finish(above, title=title, y="CPU, cores busy", zero="y")
    style.finish(below, x=_load_label(contents[0].curve), y="memory, MiB", zero="y")
    return style.png(figure)


def _load_label(curve: LoadCurve) -> str:
    if curve.loop == "open":
        return "requests sent per second"
    return "users, each asking again as soon as it is answered"
