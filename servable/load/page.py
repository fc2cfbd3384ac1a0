"""The page of a load test; the first tabs of a search's."""

from collections.abc import Sequence
from pathlib import Path

from servable.load import curve_pictures
from servable.load.content import LoadContent
from servable.load.knee import knee
from servable.load.measurement import LoadCurve
from servable.load.objective import Objective
from servable.measured import document
from servable.measured.document import About, Cell, Picture, ReportTable, Row, Tab


def write_load_report(folder: Path, curve: LoadCurve, objective: Objective | None) -> Path | None:
    """The page of a load test; None: no step was measured."""
    if not curve.steps:
        return None
    label = curve.asked.environment or curve.asked.address
    at = knee(curve, objective) if objective else None
    contents = [LoadContent(label=label, curve=curve, knee=at)]
    return write(folder, contents, curve_tabs(contents))


def write(folder: Path, contents: Sequence[LoadContent], tabs: Sequence[Tab]) -> Path:
    """report.html and pictures/*.png; one content, or two to compare. Returns the page."""
    return document.write(
        folder,
        tabs,
        title=" against ".join(content.label for content in contents),
        abouts=[_about(content) for content in contents],
        relative=any(content.curve.asked.relative for content in contents),
    )


def curve_tabs(contents: Sequence[LoadContent]) -> list[Tab]:
    """The throughput, the latency, and CPU and memory."""
    alt = "requests per second and latency against load, with the knee"
    throughput = Picture("throughput", alt, curve_pictures.throughput(contents))
    alt = "share of requests slower than a latency"
    latency = Picture("latency", alt, curve_pictures.distribution(contents))
    machine = Picture("machine", "CPU and memory against load", curve_pictures.machine(contents))
    steps = [_steps(content) for content in contents]
    return [
        Tab("throughput", "Throughput", [throughput], tables=steps),
        Tab("latency", "Latency", [latency]),
        Tab("machine", "CPU and memory", [machine]),
    ]


def _about(content: LoadContent) -> About:
    """Answer in one sentence, and where it was measured."""
    measured = content.curve.asked
    digest = measured.model_sha256[:12] if measured.model_sha256 else measured.model_at
    place = measured.instance_type or measured.machine
    parts = (f"{measured.target} {measured.address}", place, f"model {digest or 'unknown'}")
    where = (*parts, measured.started_at, *measured.bodies)
    return About(f"{content.label}: {_answer(content)}", " · ".join(filter(None, where)))


def _answer(content: LoadContent) -> str:
    steps, knee = content.curve.valid, content.knee
    if knee is not None:
        objective = f"p{knee.objective.percent:g} at most {knee.objective.most_ms:g} ms"
        least = "" if knee.bounded else "at least "
        unit = "users" if content.curve.loop == "closed" else "sent per second"
        return f"{least}{knee.rps} requests/s at {objective}, with {knee.load} {unit}."
    if not steps:
        return "no step counts: the requests of every step were sent late."
    most = max((step.throughput_rps for step in steps), key=lambda rps: rps.value)
    return f"at most {most} requests/s were answered; no load is known to keep an objective."


def _steps(content: LoadContent) -> ReportTable:
    rows = []
    for step in content.curve.steps:
        used = step.target
        cells: tuple[Cell, ...] = (
            step.load,
            (str(step.throughput_rps), step.throughput_rps.value),
            *(step.latencies.percentile_ms(percent) for percent in (50, 90, 95, 99)),
            step.failed,
            *((used.cpu_cores, used.memory_mib) if used else ("", "")),
            100 * step.generator_cpu_share,
            step.send_lag_p99_ms,
            step.refused or ("" if step.known else "throughput not known within 5 %"),
        )
        rows.append(Row(cells, "failed" if step.refused else ""))
    heads = (
        "load", "requests/s", "p50, ms", "p90, ms", "p95, ms", "p99, ms", "failed", "cores busy",
        "memory, MiB", "generator CPU, %", "send lag p99, ms", "",
    )  # fmt: skip
    return ReportTable(f"Steps of {content.label}", heads, rows)
