"""The page: everything in one file, pictures inside, nothing fetched."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from model_packaging.beside import beside
from model_packaging.private_folder import private_folder
from servable.load.measurement import LoadCurve
from servable.load.objective import Objective
from servable.report import curve_pictures, tables, trial_pictures
from servable.report.content import Content, load_content
from servable.report.tables import ReportTable

PAGE = "report.html"
PICTURES = "pictures"
_TEMPLATE = Path(__file__).with_name("page.html")


@dataclass(frozen=True)
class Picture:
    name: str
    alt: str
    png: bytes

    @property
    def base64(self) -> str:
        return base64.b64encode(self.png).decode()


@dataclass(frozen=True)
class Tab:
    id: str
    name: str
    pictures: tuple[Picture, ...] = ()
    texts: tuple[str, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    diff: str = ""


def write(folder: Path, contents: Sequence[Content], *, diff: str = "") -> Path:
    """report.html and pictures/*.png; one content, or two to compare. Returns the page."""
    if len(contents) not in (1, 2):
        raise ValueError(f"{len(contents)} runs: a report shows one, or compares two")
    shown = tabs(contents, diff)
    return write_tabs(folder, shown, html(contents, shown))


def write_tabs(folder: Path, shown: Sequence[Tab], text: str) -> Path:
    """The page and, beside it, every picture of it. Returns the page."""
    private_folder(folder / PICTURES)
    for tab in shown:
        for picture in tab.pictures:
            with beside(folder / PICTURES / f"{picture.name}.png") as file:
                file.write(picture.png)
    with beside(folder / PAGE) as file:
        file.write(text.encode())
    return folder / PAGE


def html(contents: Sequence[Content], shown: Sequence[Tab]) -> str:
    return render(
        title=" against ".join(content.label for content in contents),
        abouts=[{"sentence": tables.sentence(run), "where": tables.where(run)} for run in contents],
        relative=any(run.curve.asked.relative for run in contents),
        tabs=shown,
    )


def render(
    *, title: str, abouts: Sequence[Mapping[str, str]], tabs: Sequence[Tab], relative: bool = False
) -> str:
    """`abouts`: a "sentence" and "where" it comes from, for each of what is shown."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(title=title, abouts=abouts, relative=relative, tabs=tabs)


def tabs(contents: Sequence[Content], diff: str = "") -> list[Tab]:
    def pictured(tab: str, name: str, alt: str, png: bytes, **more: Any) -> Tab:
        return Tab(tab, name, (Picture(tab, alt, png),), **more)

    tabs = [
        pictured(
            "throughput",
            "Throughput",
            "requests per second and latency against load, with the knee",
            curve_pictures.throughput(contents),
            tables=tuple(tables.steps(content) for content in contents),
        ),
        pictured(
            "latency",
            "Latency",
            "share of requests slower than a latency",
            curve_pictures.distribution(contents),
        ),
        pictured(
            "machine",
            "CPU and memory",
            "CPU and memory against load",
            curve_pictures.machine(contents),
        ),
    ]
    if any(content.trials for content in contents):
        tabs[2:2] = [
            pictured(
                "trials",
                "Trials",
                "every trial's value",
                trial_pictures.trials(contents),
                texts=tuple(
                    f"{run.label} ended: {run.stopped}." for run in contents if run.stopped
                ),
                tables=tuple(tables.trials(content) for content in contents if content.trials),
            ),
            Tab("settings", "Settings", tuple(_effects(contents))),
            pictured(
                "cost", "Cost", "cost against p99 of each trial", trial_pictures.cost(contents)
            ),
        ]
    advised = [run for run in contents if run.recommendation is not None]
    if advised:
        advice = tuple(line for run in advised for line in tables.advice(run))
        changes = tuple(tables.changes(run) for run in advised)
        tabs.append(Tab("recommendation", "Recommendation", (), advice, changes, diff))
    return tabs


def _effects(contents: Sequence[Content]) -> Iterator[Picture]:
    for number, content in enumerate(contents):
        name = f"effects-{number + 1}" if number else "effects"
        yield Picture(name, "what each value of each setting does", trial_pictures.effects(content))


def write_load_report(folder: Path, curve: LoadCurve, objective: Objective | None) -> Path | None:
    """The page of a load test; None: no step was measured."""
    if not curve.steps:
        return None
    label = curve.asked.environment or curve.asked.address
    return write(folder, [load_content(curve, objective, label)])
