"""The page of a load test or a search, or of two of them beside each other."""

from collections.abc import Sequence
from pathlib import Path

from servable.load.measurement import LoadCurve
from servable.load.objective import Objective
from servable.report import curve_pictures, document, tables, trial_pictures
from servable.report.content import Content, load_content
from servable.report.document import Picture, Tab


def write(folder: Path, contents: Sequence[Content], *, diff: str = "") -> Path:
    """report.html and pictures/*.png; one content, or two to compare. Returns the page."""
    if len(contents) not in (1, 2):
        raise ValueError(f"{len(contents)} runs: a report shows one, or compares two")
    return document.write(
        folder,
        tabs(contents, diff),
        title=" against ".join(content.label for content in contents),
        abouts=[tables.about(content) for content in contents],
        relative=any(content.curve.asked.relative for content in contents),
    )


def tabs(contents: Sequence[Content], diff: str = "") -> list[Tab]:
    steps = [tables.steps(content) for content in contents]
    alt = "requests per second and latency against load, with the knee"
    throughput = Picture("throughput", alt, curve_pictures.throughput(contents))
    alt = "share of requests slower than a latency"
    latency = Picture("latency", alt, curve_pictures.distribution(contents))
    machine = Picture("machine", "CPU and memory against load", curve_pictures.machine(contents))
    return [
        Tab("throughput", "Throughput", [throughput], tables=steps),
        Tab("latency", "Latency", [latency]),
        *_search_tabs(contents),
        Tab("machine", "CPU and memory", [machine]),
        *_recommendation_tab(contents, diff),
    ]


def _search_tabs(contents: Sequence[Content]) -> list[Tab]:
    if not any(content.trials for content in contents):
        return []
    ends = [f"{content.label} ended: {content.stopped}." for content in contents if content.stopped]
    table = [tables.trials(content) for content in contents if content.trials]
    trials = Picture("trials", "every trial's value", trial_pictures.trials(contents))
    effects = [
        Picture(name, "what each value of each setting does", trial_pictures.effects(content))
        for content, name in zip(contents, ("effects", "effects-2"), strict=False)
    ]
    cost = Picture("cost", "cost against p99 of each trial", trial_pictures.cost(contents))
    return [
        Tab("trials", "Trials", [trials], ends, table),
        Tab("settings", "Settings", effects),
        Tab("cost", "Cost", [cost]),
    ]


def _recommendation_tab(contents: Sequence[Content], diff: str) -> list[Tab]:
    advised = [(content, content.recommendation) for content in contents if content.recommendation]
    if not advised:
        return []
    advice = [line for each in advised for line in tables.advice(*each)]
    changes = [tables.changes(*each) for each in advised]
    return [Tab("recommendation", "Recommendation", (), advice, changes, diff)]


def write_load_report(folder: Path, curve: LoadCurve, objective: Objective | None) -> Path | None:
    """The page of a load test; None: no step was measured."""
    if not curve.steps:
        return None
    label = curve.asked.environment or curve.asked.address
    return write(folder, [load_content(curve, objective, label)])
