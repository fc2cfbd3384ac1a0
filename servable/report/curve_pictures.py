"""Pictures of a load curve: throughput and latency over the load, one step's latencies, CPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator

from servable.load.latencies import middles_ms
from servable.load.measurement import LoadCurve, LoadStep
from servable.load.precision import readable
from servable.report import style
from servable.report.content import Content

NO_STEP = "No step counts: every request failed or was sent late. See the table of steps."
_SHOWN_PERCENTS = (50.0, 90.0, 95.0, 99.0)


def throughput(contents: Sequence[Content]) -> bytes:
    """Requests per second above, latency bands below, the knee in both."""
    if not any(step.latencies.bins for content in contents for step in content.curve.valid):
        return style.nothing(NO_STEP, title="Throughput against load")
    figure = style.figure(high=7.4)
    above, below = figure.subplots(2, 1, sharex=True)
    for content, colour in zip(contents, style.OF_RUNS, strict=False):
        steps = content.curve.valid
        loads = [step.load for step in steps]
        rps = [step.throughput_rps for step in steps]
        above.errorbar(
            loads,
            [one.value for one in rps],
            yerr=style.errors(rps),
            color=colour,
            marker="o",
            capsize=3,
            label=f"{content.label}: 95 % interval",
        )
        p50, p90, p99 = (
            [step.latencies.percentile_ms(percent) for step in steps] for percent in (50, 90, 99)
        )
        below.plot(loads, p50, color=colour, marker="o", label=f"{content.label}: p50")
        below.fill_between(loads, p50, p90, color=colour, alpha=0.35, lw=0, label="p50 to p90")
        below.fill_between(loads, p90, p99, color=colour, alpha=0.15, lw=0, label="p90 to p99")
        if content.knee is not None:
            knee = content.knee
            label = f"knee: {readable(knee.rps.value)} requests/s"
            for axes in (above, below):
                axes.axvspan(knee.load.low, knee.load.high, color=colour, alpha=0.12, lw=0)
            above.axvline(knee.load.value, color=colour, linestyle="--", label=label)
            below.axvline(knee.load.value, color=colour, linestyle="--")
    objectives = {one.knee.objective for one in contents if one.knee is not None}
    for objective in objectives:
        label = f"objective: p{objective.percent:g} at most {objective.most_ms:g} ms"
        below.axhline(objective.most_ms, color=style.RED, linestyle=":", label=label)
    below.set_yscale("log")
    below.yaxis.set_major_formatter(style.NUMBERS)
    below.yaxis.set_minor_locator(LogLocator(base=10, subs=(2.0, 5.0)))
    below.yaxis.set_minor_formatter(style.NUMBERS)
    below.tick_params(axis="y", which="minor", labelsize=9.5)
    load = _load_label(contents[0].curve)
    style.finish(
        above, title=f"Throughput against load{_label(contents)}", x="", y="requests per second"
    )
    style.finish(below, title="Latency against load", x=load, y="latency, ms (log)")
    style.from_zero(above)
    return style.png(figure)


def distribution(contents: Sequence[Content]) -> bytes:
    """Share of requests slower than each latency; a log scale, since an objective concerns the tail."""
    if not any(content.at_knee and content.at_knee.latencies.bins for content in contents):
        return style.nothing(NO_STEP, title="Share of requests that are slower than a latency")
    figure = style.figure()
    axes = figure.subplots()
    for content, colour in zip(contents, style.OF_RUNS, strict=False):
        step = content.at_knee
        if step is None or not step.latencies.bins:
            continue
        numbers = sorted(step.latencies.bins)
        counts = np.cumsum([step.latencies.bins[number] for number in numbers])
        share = 1 - np.concatenate([[0], counts[:-1]]) / counts[-1]
        milliseconds = middles_ms(np.array(numbers))
        axes.step(
            milliseconds,
            share * 100,
            where="post",
            color=colour,
            label=f"{content.label}, {_of(step)}",
        )
        for percent in _SHOWN_PERCENTS:
            at = step.latencies.percentile_ms(percent)
            axes.plot(at, 100 - percent, "o", color=colour)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(style.NUMBERS)
    axes.xaxis.set_minor_formatter(style.NUMBERS)
    axes.set_yticks(
        [100, 50, 10, 5, 1, 0.1], ["100", "50 (p50)", "10 (p90)", "5 (p95)", "1 (p99)", "0.1"]
    )
    axes.set_ylim(bottom=0.08, top=130)
    axes.tick_params(axis="x", which="minor", labelsize=9.5)
    axes.xaxis.set_minor_locator(LogLocator(base=10, subs=(2.0, 5.0)))
    style.finish(
        axes,
        title="Share of requests that are slower than a latency, at the knee",
        x="latency, ms (log)",
        y="slower than that, % (log)",
    )
    return style.png(figure)


def machine(contents: Sequence[Content]) -> bytes:
    """CPU cores and memory in MiB of the endpoint's processes against load."""
    title = "CPU and memory of the endpoint against load"
    if not any(step.target for content in contents for step in content.curve.valid):
        return style.nothing(
            "Not known: only an endpoint on this computer is looked at.", title=title
        )
    figure = style.figure(high=6.2)
    above, below = figure.subplots(2, 1, sharex=True)
    for content, colour in zip(contents, style.OF_RUNS, strict=False):
        steps = [(step, step.target) for step in content.curve.valid if step.target]
        loads = [step.load for step, _ in steps]
        look: dict[str, Any] = {
            "color": colour,
            "marker": "o",
            "label": f"{content.label}: endpoint",
        }
        above.plot(loads, [used.cpu_cores for _, used in steps], **look)
        below.plot(loads, [used.memory_mib for _, used in steps], **look)
    style.finish(above, title=title, x="", y="CPU, cores busy")
    style.finish(below, title="", x=_load_label(contents[0].curve), y="memory, MiB")
    style.from_zero(above)
    style.from_zero(below)
    return style.png(figure)


def _load_label(curve: LoadCurve) -> str:
    if curve.loop == "open":
        return "requests sent per second"
    return "users, each asking again as soon as it is answered"


def _of(step: LoadStep) -> str:
    return f"{step.users} users" if step.users is not None else f"{readable(step.load)} requests/s"


def _label(contents: Sequence[Content]) -> str:
    return ": relative, measured on one computer" if contents[0].curve.asked.relative else ""
